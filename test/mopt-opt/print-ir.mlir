// RUN: mopt-opt %s --cse --mopt-analyze=machine=znver5 --canonicalize -o /dev/null \
// RUN:   --mlir-print-ir-before-all 2>&1 | FileCheck %s --check-prefix=BEFORE
// RUN: mopt-opt %s --cse --mopt-analyze=machine=znver5 --canonicalize -o /dev/null \
// RUN:   --mlir-print-ir-after-change 2>&1 | FileCheck %s --check-prefix=CHANGE
// RUN: mopt-opt %s --cse --mopt-analyze=machine=znver5 --canonicalize -o /dev/null \
// RUN:   --mlir-timing 2>&1 | FileCheck %s --check-prefix=TIMING

// What is printed about passes makes no difference between MLIR's and ours.
// BEFORE: IR Dump Before CSE (cse)
// BEFORE: IR Dump Before mopt-analyze (mopt-analyze{machine=znver5})
// BEFORE: IR Dump Before Canonicalizer (canonicalize)

// CHANGE-NOT: IR Dump After {{CSE|mopt-analyze}}
// CHANGE:     IR Dump After Canonicalizer (canonicalize)

// TIMING: Execution time report
// TIMING: CSE
// TIMING: mopt-analyze
// TIMING: Canonicalizer
func.func @f() -> index {
  %one = arith.constant 1 : index
  %two = arith.addi %one, %one : index
  return %two : index
}
