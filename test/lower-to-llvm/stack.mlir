// RUN: mopt-opt --mopt-lower-to-llvm %s | FileCheck %s

// What a scope puts on the stack is gone after it, however deep inside it is.

// CHECK-LABEL: llvm.func @deep
// CHECK:         %[[STACK:.*]] = llvm.intr.stacksave
// CHECK:         llvm.cond_br
// CHECK:         llvm.alloca %arg
// CHECK:         llvm.intr.stackrestore %[[STACK]]
// CHECK:         llvm.return
func.func @deep(%output: memref<1xf32>, %n: index, %value: f32) {
  %zero = arith.constant 0 : index
  affine.for %i = 0 to 4 {
    memref.alloca_scope {
      %some = arith.cmpi sgt, %n, %zero : index
      scf.if %some {
        %buffer = memref.alloca(%n) : memref<?xf32>
        memref.store %value, %buffer[%zero] : memref<?xf32>
        memref.copy %buffer, %buffer : memref<?xf32> to memref<?xf32>
        %last = memref.load %buffer[%zero] : memref<?xf32>
        memref.store %last, %output[%zero] : memref<1xf32>
      }
    }
    memref.store %value, %output[%zero] : memref<1xf32>
  }
  return
}

// So is what an iteration of a loop puts there.

// CHECK-LABEL: llvm.func @iterations
// CHECK:         llvm.cond_br
// CHECK:         %[[STACK:.*]] = llvm.intr.stacksave
// CHECK:         llvm.alloca %arg
// CHECK:         llvm.intr.stackrestore %[[STACK]]
// CHECK:         llvm.br
// CHECK:         llvm.return
func.func @iterations(%output: memref<4096xf32>, %n: index, %value: f32) {
  %zero = arith.constant 0 : index
  affine.for %i = 0 to 4096 {
    %buffer = memref.alloca(%n) : memref<?xf32>
    memref.store %value, %buffer[%zero] : memref<?xf32>
    memref.copy %buffer, %buffer : memref<?xf32> to memref<?xf32>
    %first = memref.load %buffer[%zero] : memref<?xf32>
    memref.store %first, %output[%i] : memref<4096xf32>
  }
  return
}

// CHECK-LABEL: llvm.func @threads
// CHECK:         %[[STACK:.*]] = llvm.intr.stacksave
// CHECK:         llvm.alloca %arg
// CHECK:         llvm.intr.stackrestore %[[STACK]]
// CHECK:         llvm.return
func.func @threads(%output: memref<4096xf32>, %n: index, %value: f32) {
  %zero = arith.constant 0 : index
  scf.forall (%i) in (4096) {
    %buffer = memref.alloca(%n) : memref<?xf32>
    memref.store %value, %buffer[%zero] : memref<?xf32>
    memref.copy %buffer, %buffer : memref<?xf32> to memref<?xf32>
    %first = memref.load %buffer[%zero] : memref<?xf32>
    memref.store %first, %output[%i] : memref<4096xf32>
  }
  return
}

// CHECK-LABEL: llvm.func @while
// CHECK:         %[[STACK:.*]] = llvm.intr.stacksave
// CHECK:         llvm.alloca %arg
// CHECK:         llvm.intr.stackrestore %[[STACK]]
// CHECK:         llvm.return
func.func @while(%output: memref<4096xf32>, %n: index, %value: f32) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %last = scf.while (%i = %n) : (index) -> index {
    %more = arith.cmpi sgt, %i, %zero : index
    scf.condition(%more) %i : index
  } do {
  ^bb0(%i: index):
    %buffer = memref.alloca(%n) : memref<?xf32>
    memref.store %value, %buffer[%zero] : memref<?xf32>
    memref.copy %buffer, %buffer : memref<?xf32> to memref<?xf32>
    %first = memref.load %buffer[%zero] : memref<?xf32>
    %less = arith.subi %i, %one : index
    memref.store %first, %output[%less] : memref<4096xf32>
    scf.yield %less : index
  }
  return
}

// Buffers of static size are in the function's own part of it.

// CHECK-LABEL: llvm.func @static
// CHECK:         llvm.alloca
// CHECK-NOT:     llvm.intr.stacksave
// CHECK:         llvm.return
func.func @static(%output: memref<4xf32>) {
  affine.for %i = 0 to 4 {
    memref.alloca_scope {
      %buffer = memref.alloca() : memref<4xf32>
      memref.copy %output, %buffer : memref<4xf32> to memref<4xf32>
      memref.copy %buffer, %output : memref<4xf32> to memref<4xf32>
    }
  }
  return
}

// A buffer of buffers: what is stored is none of its indices' business.

// CHECK-LABEL: llvm.func @buffers
// CHECK:         llvm.store %{{.*}} : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>, !llvm.ptr
func.func @buffers(%output: memref<4xf32>, %value: f32, %i: index) {
  %buffers = memref.alloca() : memref<2xmemref<4xf32>>
  memref.store %output, %buffers[%i] : memref<2xmemref<4xf32>>
  %one = memref.load %buffers[%i] : memref<2xmemref<4xf32>>
  memref.store %value, %one[%i] : memref<4xf32>
  return
}

// What outlives its iteration has a place of its own in each: handed on, through a scope as well, or
// put into another buffer.

// CHECK-LABEL: llvm.func @handed_on
// CHECK-NOT:     llvm.alloca
// CHECK:         llvm.cond_br
// CHECK:         llvm.alloca
// CHECK:         llvm.intr.stacksave
func.func @handed_on(%output: memref<4xindex>, %start: memref<1xindex>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  scf.while (%i = %zero, %before = %start) : (index, memref<1xindex>) -> (index, memref<1xindex>) {
    %more = arith.cmpi slt, %i, %four : index
    scf.condition(%more) %i, %before : index, memref<1xindex>
  } do {
  ^bb0(%i: index, %before: memref<1xindex>):
    %old = memref.load %before[%zero] : memref<1xindex>
    memref.store %old, %output[%i] : memref<4xindex>
    %buffer = memref.alloca() : memref<1xindex>
    memref.store %i, %buffer[%zero] : memref<1xindex>
    %next = memref.alloca_scope -> (memref<1xindex>) {
      %more = memref.alloca(%n) : memref<?xindex>
      func.call @use(%more) : (memref<?xindex>) -> ()
      memref.alloca_scope.return %buffer : memref<1xindex>
    }
    %j = arith.addi %i, %one : index
    scf.yield %j, %next : index, memref<1xindex>
  }
  return
}
func.func private @use(%buffer: memref<?xindex>)

// CHECK-LABEL: llvm.func @put_away
// CHECK:         llvm.alloca
// CHECK:         llvm.cond_br
// CHECK:         llvm.alloca
func.func @put_away(%output: memref<4xindex>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %buffers = memref.alloca() : memref<4xmemref<1xindex>>
  scf.while (%i = %zero) : (index) -> index {
    %more = arith.cmpi slt, %i, %four : index
    scf.condition(%more) %i : index
  } do {
  ^bb0(%i: index):
    %buffer = memref.alloca() : memref<1xindex>
    memref.store %i, %buffer[%zero] : memref<1xindex>
    memref.store %buffer, %buffers[%i] : memref<4xmemref<1xindex>>
    %next = arith.addi %i, %one : index
    scf.yield %next : index
  }
  affine.for %i = 0 to 4 {
    %buffer = memref.load %buffers[%i] : memref<4xmemref<1xindex>>
    %value = memref.load %buffer[%zero] : memref<1xindex>
    memref.store %value, %output[%i] : memref<4xindex>
  }
  return
}

// So has what another function puts there.

// CHECK-LABEL: llvm.func internal @given_away(
// CHECK-NOT:     llvm.alloca
// CHECK:         llvm.cond_br
// CHECK:         llvm.alloca
func.func private @given_away(%buffers: memref<4xmemref<1xindex>>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  scf.while (%i = %zero) : (index) -> index {
    %more = arith.cmpi slt, %i, %four : index
    scf.condition(%more) %i : index
  } do {
  ^bb0(%i: index):
    %buffer = memref.alloca() : memref<1xindex>
    memref.store %i, %buffer[%zero] : memref<1xindex>
    func.call @put(%i, %buffer, %buffers) : (index, memref<1xindex>, memref<4xmemref<1xindex>>) -> ()
    %next = arith.addi %i, %one : index
    scf.yield %next : index
  }
  return
}
func.func private @put(%i: index, %buffer: memref<1xindex>, %buffers: memref<4xmemref<1xindex>>) {
  memref.store %buffer, %buffers[%i] : memref<4xmemref<1xindex>>
  return
}

// CHECK-LABEL: llvm.func internal @given_away_by_pointer
// CHECK-NOT:     llvm.alloca
// CHECK:         llvm.cond_br
// CHECK:         llvm.alloca
func.func private @given_away_by_pointer(%buffers: memref<4xmemref<1xindex>>) {
  %put = func.constant @put : (index, memref<1xindex>, memref<4xmemref<1xindex>>) -> ()
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  scf.for %i = %zero to %four step %one {
    %buffer = memref.alloca() : memref<1xindex>
    memref.store %i, %buffer[%zero] : memref<1xindex>
    func.call_indirect %put(%i, %buffer, %buffers)
        : (index, memref<1xindex>, memref<4xmemref<1xindex>>) -> ()
  }
  return
}

func.func @giving_away() {
  %buffers = memref.alloca() : memref<4xmemref<1xindex>>
  call @given_away(%buffers) : (memref<4xmemref<1xindex>>) -> ()
  call @given_away_by_pointer(%buffers) : (memref<4xmemref<1xindex>>) -> ()
  %more = memref.alloca() : memref<8xmemref<1xindex>>
  call @swapped(%more) : (memref<8xmemref<1xindex>>) -> ()
  return
}

// What a loop inside carries is followed there.

// CHECK-LABEL: llvm.func internal @swapped
// CHECK-NOT:     llvm.alloca
// CHECK:         llvm.cond_br
// CHECK-COUNT-2: llvm.alloca
func.func private @swapped(%buffers: memref<8xmemref<1xindex>>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %four = arith.constant 4 : index
  scf.while (%i = %zero) : (index) -> index {
    %more = arith.cmpi slt, %i, %four : index
    scf.condition(%more) %i : index
  } do {
  ^bb0(%i: index):
    %a = memref.alloca() : memref<1xindex>
    %b = memref.alloca() : memref<1xindex>
    %first = arith.muli %i, %two : index
    %r:2 = scf.for %j = %zero to %two step %one iter_args(%x = %a, %y = %b)
        -> (memref<1xindex>, memref<1xindex>) {
      %k = arith.addi %first, %j : index
      memref.store %k, %x[%zero] : memref<1xindex>
      memref.store %x, %buffers[%k] : memref<8xmemref<1xindex>>
      scf.yield %y, %x : memref<1xindex>, memref<1xindex>
    }
    %next = arith.addi %i, %one : index
    scf.yield %next : index
  }
  return
}

// Where a function, or a loop inside, hands it on to itself only, one place does.

// CHECK-LABEL: llvm.func @handed_around
// CHECK-NOT:     llvm.cond_br
// CHECK:         llvm.alloca
// CHECK:         llvm.cond_br
// CHECK-NOT:     llvm.alloca
// CHECK:         llvm.return
func.func @handed_around(%output: memref<1xindex>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %n step %one {
    %buffer = memref.alloca() : memref<1xindex>
    func.call @choose(%i, %buffer, %output)
        : (index, memref<1xindex>, memref<1xindex>) -> ()
    %last = scf.for %j = %zero to %n step %one iter_args(%x = %buffer) -> memref<1xindex> {
      memref.store %j, %x[%zero] : memref<1xindex>
      %even = arith.cmpi eq, %i, %j : index
      %y = arith.select %even, %output, %x : memref<1xindex>
      scf.yield %y : memref<1xindex>
    }
    memref.store %i, %last[%zero] : memref<1xindex>
  }
  return
}
func.func private @choose(%i: index, %a: memref<1xindex>, %b: memref<1xindex>) {
  %zero = arith.constant 0 : index
  %chosen = scf.index_switch %i -> memref<1xindex>
  case 0 {
    scf.yield %a : memref<1xindex>
  }
  default {
    scf.yield %b : memref<1xindex>
  }
  memref.store %i, %chosen[%zero] : memref<1xindex>
  return
}
