// RUN: mopt-opt %s --split-input-file --verify-diagnostics --mopt-analyze=machine=znver5

// What the parser, the verifier and a pass of ours say is compared with the comments.

func.func @syntax() {
  return 1 // expected-error {{expected operation name in quotes}}
}

// -----

func.func @verifier(%a: i32) {
  // expected-error@below {{'func.return' op has 1 operands}}
  // expected-note-re@below {{see current operation: "func.return"(%arg{{[0-9]+}})}}
  return %a : i32
}

// -----

func.func @remark(%a: memref<?x6xf32>, %f: memref<3x3xf32>, %x: memref<?x4xf32>) {
  linalg.conv_2d ins(%a, %f : memref<?x6xf32>, memref<3x3xf32>) outs(%x : memref<?x4xf32>)
  // expected-remark@above {{has a dynamic shape}}
  return
}

// -----

func.func @silent() {
  return
}
