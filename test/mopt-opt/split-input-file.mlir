// RUN: mopt-opt %s --split-input-file --canonicalize --mlir-print-debuginfo | FileCheck %s
// RUN: not mopt-opt %s 2>&1 | FileCheck %s --check-prefix=WHOLE

// Each chunk is a module of its own, whose locations are those of the file.
// WHOLE: split-input-file.mlir:[[#@LINE+12]]:{{[0-9]+}}: error: redefinition of symbol named 'f'

// CHECK-LABEL: func.func @f()
// CHECK:         return loc([[AT:#.*]])
// CHECK:       [[AT]] = loc("{{.*}}split-input-file.mlir":[[#@LINE+2]]:3)
func.func @f() {
  return
}

// -----

// CHECK: {{^}}// -----{{$}}
func.func @f() {
  return
}
// CHECK-LABEL: func.func @f()
// CHECK:         return loc([[AT:#.*]])
// CHECK:       [[AT]] = loc("{{.*}}split-input-file.mlir":[[#@LINE-4]]:3)
