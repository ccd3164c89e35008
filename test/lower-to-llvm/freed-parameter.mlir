// RUN: mopt-opt --mopt-lower-to-llvm --split-input-file --verify-diagnostics %s

// What callers give to a public function is theirs; memory that they have from elsewhere than `malloc`
// cannot be freed, nor can a bare pointer into what they allocated.

func.func @consume(%m: memref<4xf32>) {
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @consume, which is public: make the function private, or let its callers free what they allocate}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

func.func private @release(%n: index, %m: memref<?xf32>) {
  %view = memref.cast %m : memref<?xf32> to memref<4xf32>
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @through, which is public}}
  memref.dealloc %view : memref<4xf32>
  return
}
func.func @through(%m: memref<?xf32>, %n: index) {
  call @release(%n, %m) : (index, memref<?xf32>) -> ()
  return
}

// -----

// A function of the module's own may.

func.func private @release(%m: memref<4xf32>) attributes {no_inline} {
  memref.dealloc %m : memref<4xf32>
  return
}
func.func @own(%value: f32) -> f32 {
  %zero = arith.constant 0 : index
  %m = memref.alloc() : memref<4xf32>
  memref.store %value, %m[%zero] : memref<4xf32>
  %again = memref.load %m[%zero] : memref<4xf32>
  call @release(%m) : (memref<4xf32>) -> ()
  return %again : f32
}

// -----

// One of several parameters is a parameter.

func.func @either(%first: i1, %a: memref<4xf32>, %b: memref<4xf32>) {
  %m = arith.select %first, %a, %b : memref<4xf32>
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @either, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

func.func @branch(%first: i1, %a: memref<4xf32>, %n: index) {
  %m = scf.if %first -> memref<4xf32> {
    scf.yield %a : memref<4xf32>
  } else {
    %new = memref.alloc() : memref<4xf32>
    scf.yield %new : memref<4xf32>
  }
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @branch, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

func.func @loop(%a: memref<4xf32>, %b: memref<4xf32>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %m = scf.for %i = %zero to %n step %one iter_args(%old = %a) -> memref<4xf32> {
    memref.copy %old, %b : memref<4xf32> to memref<4xf32>
    scf.yield %b : memref<4xf32>
  }
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @loop, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

func.func @blocks(%first: i1, %n: index, %k: index, %a: memref<4xf32>) -> index {
  cf.cond_br %first, ^done(%n : index), ^free(%a : memref<4xf32>)
^free(%m: memref<4xf32>):
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @blocks, which is public}}
  memref.dealloc %m : memref<4xf32>
  cf.br ^done(%k : index)
^done(%j: index):
  return %j : index
}

// -----

func.func @jump(%n: index, %a: memref<4xf32>) {
  cf.br ^free(%n, %a : index, memref<4xf32>)
^free(%i: index, %m: memref<4xf32>):
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @jump, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

// What a loop that runs begins with is not what it ends with.

func.func @another(%a: memref<4xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %m = scf.for %i = %zero to %three step %one iter_args(%old = %a) -> memref<4xf32> {
    %new = memref.alloc() : memref<4xf32>
    memref.copy %old, %new : memref<4xf32> to memref<4xf32>
    scf.yield %new : memref<4xf32>
  }
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

func.func @switch(%which: index, %a: memref<4xf32>) {
  %m = scf.index_switch %which -> memref<4xf32>
  case 0 {
    scf.yield %a : memref<4xf32>
  }
  default {
    %new = memref.alloc() : memref<4xf32>
    scf.yield %new : memref<4xf32>
  }
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @switch, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

// A loop that may not run ends with what it begins with.

func.func @while(%more: i1, %n: index, %a: memref<4xf32>) {
  %i, %m = scf.while (%i = %n, %old = %a) : (index, memref<4xf32>) -> (index, memref<4xf32>) {
    scf.condition(%more) %i, %old : index, memref<4xf32>
  } do {
  ^bb0(%i: index, %old: memref<4xf32>):
    %new = memref.alloc() : memref<4xf32>
    scf.yield %i, %new : index, memref<4xf32>
  }
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @while, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

// What goes on with it frees it in its next iteration.

func.func @next(%more: i1, %a: memref<4xf32>) {
  %new = memref.alloc() : memref<4xf32>
  %m = scf.while (%old = %new) : (memref<4xf32>) -> memref<4xf32> {
    // expected-error @+1 {{'memref.dealloc' frees a parameter of @next, which is public}}
    memref.dealloc %old : memref<4xf32>
    scf.condition(%more) %a : memref<4xf32>
  } do {
  ^bb0(%old: memref<4xf32>):
    scf.yield %old : memref<4xf32>
  }
  return
}

// -----

func.func @case(%which: i32, %n: index, %a: memref<4xf32>) -> index {
  cf.switch %which : i32, [
    default: ^done(%n : index),
    0: ^done(%n : index),
    1: ^free(%n, %a : index, memref<4xf32>)
  ]
^free(%i: index, %m: memref<4xf32>):
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @case, which is public}}
  memref.dealloc %m : memref<4xf32>
  cf.br ^done(%i : index)
^done(%j: index):
  return %j : index
}

// -----

func.func @default(%which: i32, %n: index, %a: memref<4xf32>) -> index {
  cf.switch %which : i32, [
    default: ^free(%a : memref<4xf32>),
    0: ^done(%n : index)
  ]
^free(%m: memref<4xf32>):
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @default, which is public}}
  memref.dealloc %m : memref<4xf32>
  cf.br ^done(%n : index)
^done(%j: index):
  return %j : index
}

// -----

func.func @affine(%a: memref<4xf32>, %b: memref<4xf32>) {
  %m = affine.for %i = 0 to 3 iter_args(%old = %a) -> memref<4xf32> {
    memref.copy %old, %b : memref<4xf32> to memref<4xf32>
    affine.yield %b : memref<4xf32>
  }
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @affine, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

func.func @affine_open(%n: index, %a: memref<4xf32>) {
  %m = affine.for %i = 0 to %n iter_args(%old = %a) -> memref<4xf32> {
    %new = memref.alloc() : memref<4xf32>
    affine.yield %new : memref<4xf32>
  }
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @affine_open, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

func.func @affine_another(%a: memref<4xf32>) {
  %m = affine.for %i = 0 to 3 iter_args(%old = %a) -> memref<4xf32> {
    %new = memref.alloc() : memref<4xf32>
    memref.copy %old, %new : memref<4xf32> to memref<4xf32>
    affine.yield %new : memref<4xf32>
  }
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

func.func @affine_branch(%n: index, %a: memref<4xf32>) {
  %m = affine.if affine_set<()[n] : (n - 1 >= 0)>()[%n] -> memref<4xf32> {
    affine.yield %a : memref<4xf32>
  } else {
    %new = memref.alloc() : memref<4xf32>
    affine.yield %new : memref<4xf32>
  }
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @affine_branch, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

func.func @scope(%a: memref<4xf32>) {
  %m = memref.alloca_scope -> (memref<4xf32>) {
    memref.alloca_scope.return %a : memref<4xf32>
  }
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @scope, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}

// -----

func.func @base(%a: memref<4xf32>) {
  %base, %offset, %size, %stride = memref.extract_strided_metadata %a
      : memref<4xf32> -> memref<f32>, index, index, index
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @base, which is public}}
  memref.dealloc %base : memref<f32>
  return
}

// -----

// So may a function that is called through a pointer.

func.func private @release(%n: index, %m: memref<4xf32>) {
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @pointer, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}
func.func @pointer(%n: index, %a: memref<4xf32>) {
  %f = func.constant @release : (index, memref<4xf32>) -> ()
  func.call_indirect %f(%n, %a) : (index, memref<4xf32>) -> ()
  return
}

// -----

// A size frees nothing.

func.func @larger(%n: index) {
  %two = arith.constant 2 : index
  %a = memref.alloc(%two) : memref<?xf32>
  %b = memref.realloc %a(%n) : memref<?xf32> to memref<?xf32>
  memref.dealloc %b : memref<?xf32>
  return
}

// -----

// A pointer that is known calls one function, whatever others of its type do.

func.func private @release(%m: memref<4xf32>) {
  memref.dealloc %m : memref<4xf32>
  return
}
func.func private @use(%m: memref<4xf32>) {
  return
}
func.func @used(%a: memref<4xf32>) {
  %f = func.constant @use : (memref<4xf32>) -> ()
  func.call_indirect %f(%a) : (memref<4xf32>) -> ()
  return
}
func.func @freed() {
  %a = memref.alloc() : memref<4xf32>
  %f = func.constant @release : (memref<4xf32>) -> ()
  func.call_indirect %f(%a) : (memref<4xf32>) -> ()
  return
}

// -----

// A loop from the largest number never runs.

func.func @unsigned(%a: memref<4xf32>) {
  %minus = arith.constant -1 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %m = scf.for unsigned %i = %minus to %three step %one iter_args(%old = %a) -> memref<4xf32> {
    %new = memref.alloc() : memref<4xf32>
    memref.copy %old, %new : memref<4xf32> to memref<4xf32>
    scf.yield %new : memref<4xf32>
  }
  // expected-error @+1 {{'memref.dealloc' frees a parameter of @unsigned, which is public}}
  memref.dealloc %m : memref<4xf32>
  return
}
