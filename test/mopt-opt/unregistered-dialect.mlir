// RUN: mopt-opt %s --allow-unregistered-dialect | FileCheck %s
// RUN: not mopt-opt %s 2>&1 | FileCheck %s --check-prefix=REFUSED

// CHECK: "their.op"()
// REFUSED: unregistered-dialect.mlir:[[#@LINE+1]]:11: error: operation being parsed with an unregistered dialect
"their.op"() : () -> ()
