// RUN: not mopt-opt %s --split-input-file --verify-diagnostics 2>&1 | FileCheck %s
// RUN: not mopt-opt %s --split-input-file --verify-diagnostics=only-expected 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ONLY

// ONLY-NOT: unexpected
// ONLY:     was not produced

// CHECK: verify-diagnostics-fails.mlir:[[#@LINE+2]]:9: error: unexpected error: expected operation
func.func @unexpected() {
  return 1
}

// -----

func.func @missing() {
  // CHECK: verify-diagnostics-fails.mlir:[[#@LINE+1]]:6: error: expected warning "so" was not produced
  // expected-warning@below {{so}}
  return
}
