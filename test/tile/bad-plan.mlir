// RUN: mopt-opt --mopt-tile="machine=znver5" --split-input-file --verify-diagnostics %s

// A plan that does not fit its operation is refused, with the field that is wrong.

func.func @unknown_lanes(%a: memref<6x6xf32>, %f: memref<3x3xf32>, %x: memref<4x4xf32>) {
  // expected-error @+1 {{'mopt.plan': microkernel.lanes is 'c', not an output dim}}
  linalg.conv_2d {mopt.plan = {machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "c", vector = 4, tile = {c = 4}, reduction = ["r", "s"]}}}
    ins(%a, %f : memref<6x6xf32>, memref<3x3xf32>) outs(%x : memref<4x4xf32>)
  return
}

// -----

func.func @tile_too_large(%a: memref<6x6xf32>, %f: memref<3x3xf32>, %x: memref<4x4xf32>) {
  // expected-error @+1 {{'mopt.plan': L1.tile[h] = 5 is not in [1, 4]}}
  linalg.conv_2d {mopt.plan = {machine = "znver5", threads = 1, packing = "none",
      levels = [{name = "L1", order = ["k", "h", "w", "r", "s"],
                 tile = {k = 1, h = 5, w = 4, r = 3, s = 3}}],
      microkernel = {lanes = "w", vector = 4, tile = {w = 4}, reduction = ["r", "s"]}}}
    ins(%a, %f : memref<6x6xf32>, memref<3x3xf32>) outs(%x : memref<4x4xf32>)
  return
}

// -----

func.func @no_microkernel(%a: memref<6x6xf32>, %f: memref<3x3xf32>, %x: memref<4x4xf32>) {
  // expected-error @+1 {{'mopt.plan': the plan lacks 'microkernel'}}
  linalg.conv_2d {mopt.plan = {machine = "znver5", threads = 1, packing = "none", levels = []}}
    ins(%a, %f : memref<6x6xf32>, memref<3x3xf32>) outs(%x : memref<4x4xf32>)
  return
}

// -----

func.func @not_a_dictionary(%a: memref<6x6xf32>, %f: memref<3x3xf32>, %x: memref<4x4xf32>) {
  // expected-error @+1 {{'mopt.plan': the plan is not a dictionary attribute}}
  linalg.conv_2d {mopt.plan = "fast"}
    ins(%a, %f : memref<6x6xf32>, memref<3x3xf32>) outs(%x : memref<4x4xf32>)
  return
}

// -----

func.func @no_text(%a: memref<6x6xf32>, %f: memref<3x3xf32>, %x: memref<4x4xf32>) {
  // expected-error @+1 {{'mopt.plan': the plan holds text that is not UTF-8}}
  linalg.conv_2d {mopt.plan = {machine = "a\\b", "h\C3\A4\FF" = [{b = "\C3\A4"}]}}
    ins(%a, %f : memref<6x6xf32>, memref<3x3xf32>) outs(%x : memref<4x4xf32>)
  return
}

// -----

func.func @other_text(%a: memref<6x6xf32>, %f: memref<3x3xf32>, %x: memref<4x4xf32>) {
  // expected-error @+1 {{'mopt.plan': the plan has no field 'hä\FF'}}
  linalg.conv_2d {mopt.plan = {"h\C3\A4\\FF" = 1}}
    ins(%a, %f : memref<6x6xf32>, memref<3x3xf32>) outs(%x : memref<4x4xf32>)
  return
}

// -----

func.func @strided_lanes(%a: memref<9x9xf32>, %f: memref<3x3xf32>, %x: memref<4x4xf32>) {
  // expected-error @+1 {{'mopt.plan': microkernel.lanes is 'w', which is not contiguous in the input}}
  linalg.generic {indexing_maps = [affine_map<(h, w, r, s) -> (h * 2 + r, w * 2 + s)>,
                                   affine_map<(h, w, r, s) -> (r, s)>,
                                   affine_map<(h, w, r, s) -> (h, w)>],
                  iterator_types = ["parallel", "parallel", "reduction", "reduction"],
                  mopt.plan = {machine = "znver5", threads = 1, packing = "none", levels = [],
      microkernel = {lanes = "w", vector = 4, tile = {w = 4}, reduction = ["r", "s"]}}}
    ins(%a, %f : memref<9x9xf32>, memref<3x3xf32>) outs(%x : memref<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %o, %m : f32
    linalg.yield %n : f32
  }
  return
}

// -----

func.func @misspelt(%a: memref<6x6xf32>, %f: memref<3x3xf32>, %x: memref<4x4xf32>) {
  // expected-error @+1 {{'mopt.plan': the plan has no field 'nontemproal'; did you mean 'nontemporal'?}}
  linalg.conv_2d {mopt.plan = {machine = "znver5", threads = 1, packing = "none", levels = [],
      nontemproal = true,
      microkernel = {lanes = "w", vector = 4, tile = {w = 4}, reduction = ["r", "s"]}}}
    ins(%a, %f : memref<6x6xf32>, memref<3x3xf32>) outs(%x : memref<4x4xf32>)
  return
}

// -----

func.func @another_kind(%a: memref<6x6xf32>, %f: memref<3x3xf32>, %x: memref<4x4xf32>) {
  // expected-error @+1 {{'mopt.plan': nontemporal = 'no' is neither true nor false}}
  linalg.conv_2d {mopt.plan = {machine = "znver5", threads = 1, packing = "none", levels = [],
      nontemporal = "no",
      microkernel = {lanes = "w", vector = 4, tile = {w = 4}, reduction = ["r", "s"]}}}
    ins(%a, %f : memref<6x6xf32>, memref<3x3xf32>) outs(%x : memref<4x4xf32>)
  return
}

// -----

func.func @too_many_bits(%a: memref<6x6xf32>, %f: memref<3x3xf32>, %x: memref<4x4xf32>) {
  // expected-error @+1 {{'mopt.plan': the plan holds 100000000000000000000 : i128; its integers have at most 64 bits}}
  linalg.conv_2d {mopt.plan = {machine = "znver5", packing = "none", levels = [],
      threads = 100000000000000000000 : i128,
      microkernel = {lanes = "w", vector = 4, tile = {w = 4}, reduction = ["r", "s"]}}}
    ins(%a, %f : memref<6x6xf32>, memref<3x3xf32>) outs(%x : memref<4x4xf32>)
  return
}
