// RUN: not mopt-opt %s -o %t 2>&1 | FileCheck %s --strict-whitespace
// RUN: not test -e %t

//      CHECK:bad-syntax.mlir:[[#@LINE+4]]:19: error: use of undeclared SSA value name
// CHECK-NEXT:{{^}}  %0 = arith.addi %a, %a : i32
// CHECK-NEXT:{{^}}                  ^
func.func @f() {
  %0 = arith.addi %a, %a : i32
  return
}
