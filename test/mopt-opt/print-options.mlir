// RUN: mopt-opt %s | FileCheck %s --check-prefixes=NAMES,WHOLE
// RUN: mopt-opt %s --mlir-use-nameloc-as-prefix=0 | FileCheck %s --check-prefix=NUMBERS
// RUN: mopt-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: mopt-opt %s --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LOCATIONS
// RUN: mopt-opt %s --mlir-elide-elementsattrs-if-larger=99999999999999999999 | FileCheck %s --check-prefix=WHOLE
// RUN: mopt-opt %s --mlir-elide-elementsattrs-if-larger=2 | FileCheck %s --check-prefix=ELIDED
// RUN: mopt-opt %s --emit-bytecode | mopt-opt | FileCheck %s --check-prefixes=NAMES,WHOLE

// NAMES:     %weights = arith.constant
// NUMBERS:   %cst = arith.constant
// WHOLE:     dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]>
// GENERIC:   "arith.constant"()
// LOCATIONS: arith.constant {{.*}} loc("weights"
// ELIDED:    dense_resource<__elided__>
func.func @f() -> tensor<3xf32> {
  %0 = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32> loc("weights")
  return %0 : tensor<3xf32>
}
