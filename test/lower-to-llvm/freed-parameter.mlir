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
