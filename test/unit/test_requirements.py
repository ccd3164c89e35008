"""Sizes that types leave open: what fits runs, what does not is refused before it runs."""

import inspect
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mopt_mlir import UserError, compile, sink
from mopt_mlir.compiler.ahead_of_time import compile_to_file
from mopt_mlir.compiler.options import CompileOptions
from mopt_mlir.func_ops import functions_of
from mopt_mlir.lowering import shapes
from mopt_mlir.lowering.kept_requirements import as_data, from_data
from mopt_mlir.lowering.requirements import requirements
from mopt_mlir.lowering.sizes import Unknown, compute
from mopt_mlir.measuring.running import RunOptions, run_entry
from mopt_mlir.pipeline.loading import load_module, run_passes

CONV = """
func.func @f(%x: memref<1x?x10x8xf32>, %w: memref<3x3x8x16xf32>, %o: memref<1x?x8x16xf32>) {
  linalg.conv_2d_nhwc_hwcf
      {dilations = dense<[2, 1]> : tensor<2xi64>, strides = dense<[3, 1]> : tensor<2xi64>}
      ins(%x, %w : memref<1x?x10x8xf32>, memref<3x3x8x16xf32>) outs(%o : memref<1x?x8x16xf32>)
  return
}
"""
MATMUL = """
func.func @f(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %b, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%init : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
"""
PADDED = """
func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2 : index
  %high = arith.divsi %n, %two : index
  %padded = tensor.pad %a low[1] high[%high] {
    ^bb0(%i: index):
      tensor.yield %zero : f32
  } : tensor<?xf32> to tensor<?xf32>
  %0 = arith.addf %padded, %b : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
CALLED = """
func.func private @copy(%a: memref<?xf32>, %b: memref<?xf32>) {
  memref.copy %a, %b : memref<?xf32> to memref<?xf32>
  return
}
func.func @f(%a: memref<?xf32>, %b: memref<?xf32>) {
  call @copy(%a, %b) : (memref<?xf32>, memref<?xf32>) -> ()
  return
}
"""
SLICED = """
func.func @f(%a: memref<?xf32>, %b: memref<?xf32>, %n: index) {
  %s = memref.subview %a[%n] [2] [3] : memref<?xf32> to memref<2xf32, strided<[3], offset: ?>>
  %t = memref.cast %b : memref<?xf32> to memref<2xf32>
  linalg.copy ins(%s : memref<2xf32, strided<[3], offset: ?>>) outs(%t : memref<2xf32>)
  return
}
"""
EXPANDED = """
func.func @f(%a: tensor<?xf32>, %n: index) -> tensor<?x4xf32> {
  %0 = tensor.expand_shape %a [[0, 1]] output_shape [%n, 4] : tensor<?xf32> into tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""
ITERATED = """
func.func @f(%a: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<?xf32> {
    %next = arith.addf %x, %a : tensor<?xf32>
    scf.yield %next : tensor<?xf32>
  }
  return %sum : tensor<?xf32>
}
"""
GROWING = ITERATED.replace("arith.addf %x, %a", "tensor.empty(%i)").replace(
    "return %sum", "%0 = arith.addf %sum, %a : tensor<?xf32>\n  return %0"
)
TILED = """
func.func @f(%a: memref<?xf32>, %b: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %n = memref.dim %a, %c0 : memref<?xf32>
  scf.for %i = %c0 to %n step %c4 {
    %size = affine.min affine_map<(d0)[s0] -> (4, s0 - d0)>(%i)[%n]
    %s = memref.subview %a[%i] [%size] [1] : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
    %t = memref.subview %b[%i] [%size] [1] : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
    linalg.copy ins(%s : memref<?xf32, strided<[1], offset: ?>>)
        outs(%t : memref<?xf32, strided<[1], offset: ?>>)
  }
  return
}
"""


FORGOTTEN = """
func.func @f(%a: tensor<4x8xf32>, %rows: tensor<3x1xindex>) -> tensor<?x8xf32> {
  %x = tensor.cast %rows : tensor<3x1xindex> to tensor<?x1xindex>
  %0 = tensor.gather %a[%x] gather_dims([0])
      : (tensor<4x8xf32>, tensor<?x1xindex>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
"""
LENGTHENED = """
func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<?xf32> {
    %first = tensor.extract_slice %x[0] [1] [1] : tensor<?xf32> to tensor<1xf32>
    %size = tensor.dim %x, %c0 : tensor<?xf32>
    %part = tensor.extract_slice %b[0] [%size] [1] : tensor<?xf32> to tensor<?xf32>
    %more = arith.addi %size, %c1 : index
    %longer = tensor.empty(%more) : tensor<?xf32>
    %next = tensor.insert_slice %part into %longer[0] [%size] [1]
        : tensor<?xf32> into tensor<?xf32>
    scf.yield %next : tensor<?xf32>
  }
  return %sum : tensor<?xf32>
}
"""

COUNTED = """
func.func @f(%a: memref<?xf32>, %n: i64) {
  %one = arith.constant 1.0 : f32
  %three = arith.constant 3 : i64
  OPERATIONS
  %s = memref.subview %a[0] [%count] [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  linalg.fill ins(%one : f32) outs(%s : memref<?xf32, strided<[1]>>)
  return
}
"""
REVERSED = """
func.func @f(%a: memref<?xf32>, %b: memref<2xf32>, %n: index) {
  %s = memref.subview %a[%n] [2] [-2] : memref<?xf32> to memref<2xf32, strided<[-2], offset: ?>>
  linalg.copy ins(%s : memref<2xf32, strided<[-2], offset: ?>>) outs(%b : memref<2xf32>)
  return
}
"""

GUARDED = """
func.func @f(%a: memref<?xf32>, %b: memref<2xf32>, %n: index) {
  %zero = arith.constant 0 : index
  %inside = arith.cmpi sge, %n, %zero : index
  scf.if %inside {
    %s = memref.subview %a[%n] [2] [1] : memref<?xf32> to memref<2xf32, strided<[1], offset: ?>>
    linalg.copy ins(%s : memref<2xf32, strided<[1], offset: ?>>) outs(%b : memref<2xf32>)
  }
  return
}
"""
STEPPED = """
func.func @f(%a: memref<?xf32>, %b: memref<?xf32>, %first: index, %n: index, %step: index) {
  %s = memref.subview %a[%first] [%n] [%step]
      : memref<?xf32> to memref<?xf32, strided<[?], offset: ?>>
  memref.copy %s, %b : memref<?xf32, strided<[?], offset: ?>> to memref<?xf32>
  return
}
"""
DROPPED = """
func.func @f(%a: memref<1x?x1xf32>, %b: memref<1x?xf32>) {
  %one = arith.constant 1 : index
  %n = memref.dim %a, %one : memref<1x?x1xf32>
  %s = memref.subview %a[0, 0, 0] [1, %n, 1] [1, 1, 1]
      : memref<1x?x1xf32> to memref<1x?xf32, strided<[?, 1]>>
  memref.copy %s, %b : memref<1x?xf32, strided<[?, 1]>> to memref<1x?xf32>
  return
}
"""
SHORTENED = """
func.func private @rest(%a: VIEW) -> VIEW {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = memref.dim %a, %zero : VIEW
  %less = arith.subi %n, %one : index
  %s = memref.subview %a[1] [%less] [1] : VIEW to VIEW
  return %s : VIEW
}
func.func @f(%a: VIEW, %b: memref<?xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %last = scf.for %i = %zero to %three step %one iter_args(%x = %a) -> VIEW {
    %y = func.call @rest(%x) : (VIEW) -> VIEW
    memref.copy %y, %b : VIEW to memref<?xf32>
    scf.yield %y : VIEW
  }
  return
}
""".replace("VIEW", "memref<?xf32, strided<[1], offset: ?>>")

SURROUNDED = """
func.func @f(%a: tensor<?xf32>, %low: index, %high: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.pad %a low[%low] high[%high] {
    ^bb0(%i: index):
      tensor.yield %zero : f32
  } : tensor<?xf32> to tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
MORE_AND_MORE = """
func.func @f(%a: tensor<?xf32>) -> f32 {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %zero) -> f32 {
    %padded = tensor.pad %a low[%i] high[0] {
      ^bb0(%j: index):
        tensor.yield %zero : f32
    } : tensor<?xf32> to tensor<?xf32>
    %x = tensor.extract %padded[%i] : tensor<?xf32>
    %t = arith.addf %s, %x : f32
    scf.yield %t : f32
  }
  return %sum : f32
}
"""
JOINED = """
func.func @f(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>)
    -> tensor<?x?xf32> {
  %0 = tensor.concat dim(0) %a, %b : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = arith.addf %0, %c : tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
"""
RESHAPED = """
func.func @f(%a: tensor<?xf32>, %n: index) -> tensor<?x?xf32> {
  %three = arith.constant 3 : index
  %sizes = tensor.from_elements %n, %three : tensor<2xindex>
  %0 = tensor.reshape %a(%sizes) : (tensor<?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %1 = arith.addf %0, %0 : tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
"""
RESHAPED_AS_TOLD = """
func.func @f(%a: tensor<?xf32>, %sizes: tensor<2xindex>) -> tensor<?x?xf32> {
  %0 = tensor.reshape %a(%sizes) : (tensor<?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
"""
BUFFER_RESHAPED = """
func.func @f(%a: memref<?xf32>, %sizes: memref<2xindex>) {
  %two = arith.constant 2.0 : f32
  %r = memref.reshape %a(%sizes) : (memref<?xf32>, memref<2xindex>) -> memref<?x?xf32>
  linalg.fill ins(%two : f32) outs(%r : memref<?x?xf32>)
  return
}
"""
VIEWED = """
func.func @f(%a: memref<?xi8>, %n: index, %from: index) {
  %two = arith.constant 2.0 : f32
  %r = memref.view %a[%from][%n] : memref<?xi8> to memref<?xf32>
  linalg.fill ins(%two : f32) outs(%r : memref<?xf32>)
  return
}
"""
VIEWED_AS_INDICES = """
func.func @f(%a: memref<?xi8>, %n: index) -> index {
  %zero = arith.constant 0 : index
  %r = memref.view %a[%zero][%n] : memref<?xi8> to memref<?xindex>
  %0 = memref.load %r[%zero] : memref<?xindex>
  return %0 : index
}
"""
VIEWED_IN_A_LOOP = """
func.func @f(%a: memref<?xi8>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %bytes = arith.constant 64 : index
  %two = arith.constant 2.0 : f32
  scf.for %i = %zero to %n step %one {
    %from = arith.muli %i, %bytes : index
    %r = memref.view %a[%from][] : memref<?xi8> to memref<16xf32>
    linalg.fill ins(%two : f32) outs(%r : memref<16xf32>)
  }
  return
}
"""
BASE_REINTERPRETED = """
func.func @f(%a: memref<?xf32>, %n: index) {
  %two = arith.constant 2.0 : f32
  %base, %offset, %size, %stride = memref.extract_strided_metadata %a
      : memref<?xf32> -> memref<f32>, index, index, index
  %r = memref.reinterpret_cast %base to offset: [0], sizes: [%n], strides: [1]
      : memref<f32> to memref<?xf32, strided<[1]>>
  linalg.fill ins(%two : f32) outs(%r : memref<?xf32, strided<[1]>>)
  return
}
"""
BACKWARDS = """
func.func @f(%a: memref<?xf32>) {
  %two = arith.constant 2.0 : f32
  %r = memref.reinterpret_cast %a to offset: [7], sizes: [2], strides: [-1]
      : memref<?xf32> to memref<2xf32, strided<[-1], offset: 7>>
  linalg.fill ins(%two : f32) outs(%r : memref<2xf32, strided<[-1], offset: 7>>)
  return
}
"""
REINTERPRETED = """
func.func @f(%a: memref<?xf32>) {
  %two = arith.constant 2.0 : f32
  %r = memref.reinterpret_cast %a to offset: [1], sizes: [4, 2], strides: [4, 1]
      : memref<?xf32> to memref<4x2xf32, strided<[4, 1], offset: 1>>
  linalg.fill ins(%two : f32) outs(%r : memref<4x2xf32, strided<[4, 1], offset: 1>>)
  return
}
"""
ALIGNED = """
func.func @f(%a: memref<?xf32>, %b: memref<?xf32>, %n: index) {
  %two = arith.constant 2.0 : f32
  %x = memref.assume_alignment %a, 4 : memref<?xf32>
  linalg.copy ins(%x : memref<?xf32>) outs(%b : memref<?xf32>)
  %s = memref.subview %x[0] [%n] [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  linalg.fill ins(%two : f32) outs(%s : memref<?xf32, strided<[1]>>)
  return
}
"""
TURNED = """
func.func @f(%a: memref<?x?xf32>, %b: memref<?x?xf32>) {
  %t = memref.transpose %a (i, j) -> (j, i)
      : memref<?x?xf32> to memref<?x?xf32, strided<[1, ?]>>
  memref.copy %t, %b : memref<?x?xf32, strided<[1, ?]>> to memref<?x?xf32>
  return
}
"""
ALLOCATED = """
func.func @f(%n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %0 = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
ROW_BY_ROW = """
func.func @f(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %a, %c1 : tensor<?x?xf32>
  %0 = scf.forall (%i) in (%m) shared_outs(%o = %b) -> tensor<?x?xf32> {
    %row = tensor.extract_slice %a[%i, 0] [1, %n] [1, 1] : tensor<?x?xf32> to tensor<1x?xf32>
    %sum = arith.addf %row, %row : tensor<1x?xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %sum into %o[%i, 0] [1, %n] [1, 1]
          : tensor<1x?xf32> into tensor<?x?xf32>
    }
  }
  %1 = arith.addf %0, %b : tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
"""

IF_IT_FITS = """
func.func @f(%a: memref<?xf32>, %b: memref<2xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %size = memref.dim %a, %c0 : memref<?xf32>
  %end = arith.addi %n, %c2 : index
  %fits = arith.cmpi sle, %end, %size : index
  scf.if %fits {
    %s = memref.subview %a[%n] [2] [1] : memref<?xf32> to memref<2xf32, strided<[1], offset: ?>>
    memref.copy %s, %b : memref<2xf32, strided<[1], offset: ?>> to memref<2xf32>
  } else {
    %s = memref.subview %a[1] [2] [1] : memref<?xf32> to memref<2xf32, strided<[1], offset: 1>>
    memref.copy %s, %b : memref<2xf32, strided<[1], offset: 1>> to memref<2xf32>
  }
  return
}
"""
EITHER = """
func.func @f(%c: i1, %a: memref<?xf32>, %b: memref<?xf32>, %o: memref<?xf32>) {
  %s = arith.select %c, %a, %b : memref<?xf32>
  memref.copy %s, %o : memref<?xf32> to memref<?xf32>
  return
}
"""
GENERATED = """
func.func @f(%a: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %one = arith.constant 1.0 : f32
  %g = tensor.generate %n {
  ^bb0(%i: index):
    tensor.yield %one : f32
  } : tensor<?xf32>
  %s = tensor.splat %one[%n] : tensor<?xf32>
  %copy = bufferization.alloc_tensor() copy(%s) : tensor<?xf32>
  %new = bufferization.alloc_tensor(%n) : tensor<?xf32>
  %filled = linalg.fill ins(%one : f32) outs(%new : tensor<?xf32>) -> tensor<?xf32>
  %0 = arith.addf %a, %g : tensor<?xf32>
  %1 = arith.addf %0, %copy : tensor<?xf32>
  %2 = arith.addf %1, %filled : tensor<?xf32>
  return %2 : tensor<?xf32>
}
"""
STATIC_SLICE = """
func.func @f(%a: memref<5xf32>, %b: memref<2xf32>, %n: index) {
  %s = memref.subview %a[%n] [2] [1] : memref<5xf32> to memref<2xf32, strided<[1], offset: ?>>
  memref.copy %s, %b : memref<2xf32, strided<[1], offset: ?>> to memref<2xf32>
  return
}
"""

SLICED_IN_A_CALL = """
func.func private @part(%a: memref<5xf32>, %b: memref<2xf32>, %n: index) {
  %s = memref.subview %a[%n] [2] [1] : memref<5xf32> to memref<2xf32, strided<[1], offset: ?>>
  memref.copy %s, %b : memref<2xf32, strided<[1], offset: ?>> to memref<2xf32>
  return
}
func.func @f(%c: i1, %a: memref<5xf32>, %b: memref<2xf32>, %n: index) {
  scf.if %c {
    func.call @part(%a, %b, %n) : (memref<5xf32>, memref<2xf32>, index) -> ()
  }
  return
}
"""

IN_A_CALL = SLICED_IN_A_CALL.replace("memref<5xf32>", "memref<?xf32>")
TWICE_CALLED = (
    IN_A_CALL.removesuffix("  return\n}\n")
    + """
  func.call @part(%a, %b, %n) : (memref<?xf32>, memref<2xf32>, index) -> ()
  return
}
"""
)


def indexed(type_: str, map_: str) -> str:
    """The elements of `type_` that a map says for two rows of eight."""
    return f"""
func.func @f(%x: {type_}, %o: memref<?x8xf32>) {{
  linalg.generic {{
      indexing_maps = [affine_map<(n, i) -> {map_}>, affine_map<(n, i) -> (n, i)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : {type_}) outs(%o : memref<?x8xf32>) {{
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }}
  return
}}
"""


HALVED = indexed("memref<?x4xf32>", "(n, i floordiv 2)")
ROUNDED_UP = indexed("memref<?x?xf32>", "(n, (i + 1) ceildiv 2)")
IN_TURN = indexed("memref<?x?xf32>", "(n, i mod 3)")
FLIPPED = indexed("memref<?x8xf32>", "(n, -i + 7)")
FLIPPED_TOO_FAR = indexed("memref<?x?xf32>", "(n, -i + 6)")
ROWS_FLIPPED = indexed("memref<?x8xf32>", "(-n + 3, i)")


COPY = "memref.copy %a, %b : memref<?xf32> to memref<?xf32>"
HEAD = """
func.func @f(%a: memref<?xf32>, %b: memref<?xf32>, %k: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
"""
IF_ALIKE = f"""
{HEAD}
  %n = memref.dim %a, %zero : memref<?xf32>
  %m = memref.dim %b, %zero : memref<?xf32>
  %same = arith.cmpi eq, %n, %m : index
  cf.cond_br %same, ^copy, ^end
^copy:
  cf.br ^then
^then:
  {COPY}
  cf.br ^end
^end:
  return
}}
"""
UNLESS_NEGATIVE = f"""
{HEAD}
  %out = arith.cmpi slt, %k, %zero : index
  cf.cond_br %out, ^end, ^copy
^copy:
  {COPY}
  cf.br ^end
^end:
  return
}}
"""
AROUND_AGAIN = f"""
{HEAD}
  cf.br ^loop(%zero : index)
^loop(%i: index):
  {COPY}
  %next = arith.addi %i, %one : index
  %more = arith.cmpi slt, %next, %k : index
  cf.cond_br %more, ^loop(%next : index), ^end
^end:
  return
^apart:
  cf.br ^never
^never:
  {COPY}
  cf.br ^apart
}}
"""
IN_A_LOOP = f"""
{HEAD}
  scf.for %i = %one to %k step %one {{
    {COPY}
  }}
  return
}}
"""
IN_A_CASE = f"""
{HEAD}
  scf.index_switch %k
  case 2 {{
    {COPY}
    scf.yield
  }}
  case 5 {{
    scf.yield
  }}
  default {{
    {COPY}
    scf.yield
  }}
  return
}}
"""


def function(source: str):
    with sink(lambda _: None):  # what is not tiled is no matter here
        return compile(source, machine="generic-avx2")["f"]


def ones(*shape: int):
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        # (rows of the output - 1) * stride + (rows of the filter - 1) * dilation + 1
        (CONV, (ones(1, 13, 10, 8), ones(3, 3, 8, 16), ones(1, 4, 8, 16)), "at least 14 .*has 13"),
        (CONV, (ones(1, 10, 10, 8), ones(3, 3, 8, 16), ones(1, 20, 8, 16)), "at least 62 elements"),
        (MATMUL, (ones(2, 3), ones(2, 4)), "'linalg.matmul' .*needs 3 .*axis 0 of its operand 1"),
        (PADDED, (ones(3), ones(7), 5), "needs 6 elements along axis 0 .*, which has 7"),
        (CALLED, (ones(3), ones(2)), "'memref.copy' .<text>:3:3. needs 3 elements"),
        (SLICED, (ones(5), ones(2), 2), "'memref.subview' .*needs at least 6 elements"),
        (SLICED, (ones(5), ones(3), 1), "'memref.cast' .*needs 2 elements .*has 3"),
        (SLICED, (ones(5), ones(2), -1), "'memref.subview' .*needs at least 6 elements .*has 5"),
        (REVERSED, (ones(5), ones(2), 1), "'memref.subview' .*needs at least 6 elements .*has 5"),
        (REVERSED, (ones(5), ones(2), 5), "'memref.subview' .*needs at least 6 elements .*has 5"),
        (GUARDED, (ones(5), ones(2), 4), "'memref.subview' .*needs at least 6 elements .*has 5"),
        (STEPPED, (ones(5), ones(5), 3, 5, -1), "needs at least 6 elements .*has 5"),
        (STEPPED, (ones(5), ones(5), 5, 5, -1), "needs at least 6 elements .*has 5"),
        (STEPPED, (ones(5), ones(3), 1, 3, 2), "needs at least 6 elements .*has 5"),
        (DROPPED, (ones(1, 7, 1), ones(1, 6)), "'memref.copy' .*needs 7 elements"),
        (SHORTENED, (ones(5), ones(5)), "whether its sizes fit cannot be told"),
        (EXPANDED, (ones(11), 3), "'tensor.expand_shape' .*needs 12 elements .*has 11"),
        (GROWING, (ones(3), 3), "whether its sizes fit cannot be told from the arguments"),
        (SURROUNDED, (ones(8), -2, 3), "'tensor.pad' .*needs at least 8 elements .*has 6"),
        (SURROUNDED, (ones(8), 3, -2), "'tensor.pad' .*needs at least 8 elements .*has 6"),
        (JOINED, (ones(2, 3), ones(4, 5), ones(6, 3)), "'tensor.concat' .*needs 3 .*, which has 5"),
        (JOINED, (ones(2, 3), ones(4, 3), ones(5, 3)), "'arith.addf' .*needs 6 .*, which has 5"),
        (RESHAPED, (ones(11), 4), "'tensor.reshape' .*needs 12 elements .*has 11"),
        (RESHAPED_AS_TOLD, (ones(6), np.array([2, 3])), "whether its sizes fit cannot be told"),
        (BUFFER_RESHAPED, (ones(6), np.array([2, 3])), "whether its sizes fit cannot be told"),
        (VIEWED, (np.zeros(15, np.int8), 3, 4), "'memref.view' .*at least 16 .*has 15"),
        (REINTERPRETED, (ones(14),), "'memref.reinterpret_cast' .*at least 15 .*has 14"),
        (BACKWARDS, (ones(7),), "'memref.reinterpret_cast' .*at least 8 .*has 7"),
        (ALIGNED, (ones(3), ones(2), 1), "'linalg.copy' .*needs 3 elements .*has 2"),
        (ALIGNED, (ones(3), ones(3), 4), "'memref.subview' .*at least 4 elements .*has 3"),
        (TURNED, (ones(2, 3), ones(2, 3)), "'memref.copy' .*needs 3 elements .*has 2"),
        (ALLOCATED, (-5,), "'tensor.empty' .*at least 0 elements .*has -5"),
        (ROW_BY_ROW, (ones(3, 4), ones(3, 3)), "'tensor.parallel_insert_slice' .*at least 4 elem"),
        (IF_IT_FITS, (ones(2), ones(2), 1), "'memref.subview' .*at least 3 elements .*has 2"),
        (EITHER, (True, ones(3), ones(5), ones(5)), "'memref.copy' .*needs 3 elements .*has 5"),
        (EITHER, (False, ones(3), ones(5), ones(3)), "'memref.copy' .*needs 5 elements .*has 3"),
        (GENERATED, (ones(3), 4), "'arith.addf' .*needs 3 elements .*has 4"),
        (STATIC_SLICE, (ones(5), ones(2), 4), "'memref.subview' .*at least 6 elements .*has 5"),
        (IN_A_CALL, (True, ones(5), ones(2), 4), "'memref.subview' .*at least 6 elements .*has 5"),
        (TWICE_CALLED, (False, ones(5), ones(2), 4), "'memref.subview' .*at least 6 .*has 5"),
        (HALVED, (ones(1, 4), ones(2, 8)), "'linalg.generic' .*needs 1 elements .*has 2"),
        (ROUNDED_UP, (ones(2, 4), ones(2, 8)), "'linalg.generic' .*at least 5 elements .*has 4"),
        (IN_TURN, (ones(2, 2), ones(2, 8)), "'linalg.generic' .*at least 3 elements .*has 2"),
        (FLIPPED_TOO_FAR, (ones(2, 9), ones(2, 8)), "'linalg.generic' .*at least 10 .*has 9"),
        (ROWS_FLIPPED, (ones(3, 8), ones(2, 8)), "'linalg.generic' .*at least 4 elements .*has 3"),
        (ROWS_FLIPPED, (ones(9, 8), ones(5, 8)), "'linalg.generic' .*at least 10 .*has 9"),
        (UNLESS_NEGATIVE, (ones(3), ones(2), 0), "'memref.copy' .*needs 3 elements .*has 2"),
        (AROUND_AGAIN, (ones(3), ones(2), 0), "'memref.copy' .*needs 3 elements .*has 2"),
        (IN_A_LOOP, (ones(3), ones(2), 2), "'memref.copy' .*needs 3 elements .*has 2"),
        (IN_A_CASE, (ones(3), ones(2), 2), "'memref.copy' .*needs 3 elements .*has 2"),
        (IN_A_CASE, (ones(3), ones(2), 3), "'memref.copy' .*needs 3 elements .*has 2"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(source, arguments, message):
    before = [argument.copy() for argument in arguments if isinstance(argument, np.ndarray)]
    with pytest.raises(ValueError, match=f"f: .*{message}"):
        function(source)(*arguments)
    after = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        (CONV, (ones(1, 14, 10, 8), ones(3, 3, 8, 16), ones(1, 4, 8, 16))),
        (CONV, (ones(1, 16, 10, 8), ones(3, 3, 8, 16), ones(1, 4, 8, 16))),
        (MATMUL, (ones(2, 3), ones(3, 4))),
        (PADDED, (ones(3), ones(6), 5)),
        (CALLED, (ones(3), ones(3))),
        (SLICED, (ones(5), ones(2), 1)),
        (GUARDED, (ones(5), ones(2), -1)),
        (STEPPED, (ones(5), ones(5), 4, 5, -1)),
        (STEPPED, (ones(0), ones(0), 0, 0, -1)),
        (STEPPED, (ones(5), ones(2), 1, 2, 3)),
        (DROPPED, (ones(1, 7, 1), ones(1, 7))),
        (REVERSED, (ones(5), ones(2), 2)),
        (REVERSED, (ones(5), ones(2), 4)),
        (EXPANDED, (ones(12), 3)),
        (ITERATED, (ones(3), 2)),
        (LENGTHENED, (ones(5), ones(3), 0)),
        (TILED, (ones(10), ones(10))),
        (SURROUNDED, (ones(8), 2, 0)),
        (JOINED, (ones(2, 3), ones(4, 3), ones(6, 3))),
        (MORE_AND_MORE, (ones(8),)),
        (RESHAPED, (ones(12), 4)),
        (VIEWED, (np.zeros(16, np.int8), 3, 4)),
        (VIEWED_AS_INDICES, (np.zeros(16, np.int8), 2)),
        (VIEWED_IN_A_LOOP, (np.zeros(128, np.int8), 2)),
        (REINTERPRETED, (ones(15),)),
        (BASE_REINTERPRETED, (ones(3), 3)),
        (BACKWARDS, (ones(8),)),
        (ALIGNED, (ones(3), ones(3), 3)),
        (TURNED, (ones(2, 3), ones(3, 2))),
        (ALLOCATED, (5,)),
        (ROW_BY_ROW, (ones(3, 4), ones(3, 4))),
        (CONV, (ones(1, 0, 10, 8), ones(3, 3, 8, 16), ones(1, 0, 8, 16))),
        (IF_IT_FITS, (ones(5), ones(2), 4)),
        (IF_IT_FITS, (ones(2), ones(2), 0)),
        (EITHER, (True, ones(3), ones(5), ones(3))),
        (EITHER, (False, ones(3), ones(5), ones(5))),
        (GENERATED, (ones(3), 3)),
        (STATIC_SLICE, (ones(5), ones(2), 3)),
        (SLICED_IN_A_CALL, (False, ones(5), ones(2), 4)),
        (IN_A_CALL, (False, ones(5), ones(2), 4)),
        (IN_A_CALL, (True, ones(6), ones(2), 4)),
        (TWICE_CALLED, (True, ones(6), ones(2), 4)),
        (HALVED, (ones(2, 4), ones(2, 8))),
        (ROUNDED_UP, (ones(2, 5), ones(2, 8))),
        (IN_TURN, (ones(2, 3), ones(2, 8))),
        (FLIPPED, (ones(2, 8), ones(2, 8))),
        (ROWS_FLIPPED, (ones(4, 8), ones(2, 8))),
        (ROWS_FLIPPED, (ones(3, 8), ones(0, 8))),
        (IF_ALIKE, (ones(3), ones(2), 0)),
        (UNLESS_NEGATIVE, (ones(3), ones(2), -1)),
        (AROUND_AGAIN, (ones(3), ones(3), 2)),
        (IN_A_LOOP, (ones(3), ones(2), 1)),
        (IN_A_LOOP, (ones(3), ones(3), 2)),
        (IN_A_CASE, (ones(3), ones(2), 5)),
        (IN_A_CASE, (ones(3), ones(3), 2)),
    ],
)
def test_sizes_that_fit_are_accepted(source, arguments):
    function(source)(*arguments)


@pytest.mark.parametrize(
    ("operations", "n", "count"),
    [
        ("%i = arith.trunci %n : i64 to i8; %count = arith.index_castui %i : i8 to index", -1, 255),
        ("%i = arith.trunci %n : i64 to i8; %count = arith.index_castui %i : i8 to index", 259, 3),
        ("%i = arith.trunci %n : i64 to i8; %count = arith.index_cast %i : i8 to index", 257, 1),
        ("%i = arith.trunci %n : i64 to i1; %j = arith.extui %i : i1 to i64", 7, 1),
        ("%i = arith.trunci %n : i64 to i1; %j = arith.extsi %i : i1 to i64", 8, 0),
        (
            "%i = arith.trunci %n : i64 to i1; %k = arith.extsi %i : i1 to i64; "
            "%j = arith.addi %k, %three : i64",
            7,
            2,
        ),
        ("%i = arith.trunci %n : i64 to i4; %j = arith.extsi %i : i4 to i64", 21, 5),
        ("%j = arith.minui %n, %three : i64", -1, 3),
        (
            "%i = arith.trunci %n : i64 to i8; %k = arith.addi %i, %i : i8; "
            "%j = arith.extsi %k : i8 to i64",
            -100,
            56,
        ),
        (
            "%i = arith.cmpi eq, %n, %three : i64; %k = arith.cmpi ne, %n, %three : i64; "
            "%l = arith.cmpi slt, %i, %k : i1; %j = arith.extui %l : i1 to i64",
            3,
            1,
        ),
        ("%j = arith.minsi %n, %three : i64", 2, 2),
        ("%j = arith.remui %n, %three : i64", -1, (2**64 - 1) % 3),
        ("%i = arith.maxui %n, %three : i64; %j = arith.subi %three, %i : i64", -1, 4),
        ("%i = arith.divui %n, %n : i64; %j = arith.addi %i, %three : i64", -5, 4),
        ("%i = arith.cmpi ult, %n, %three : i64; %j = arith.extui %i : i1 to i64", -1, 0),
        ("%i = arith.cmpi ult, %n, %three : i64; %j = arith.extui %i : i1 to i64", 1, 1),
        ("%i = arith.cmpi slt, %n, %three : i64; %j = arith.extui %i : i1 to i64", -1, 1),
        (
            "%i = arith.index_castui %n : i64 to index; %z = arith.constant 0 : index; "
            "%count = arith.maxsi %i, %z : index",
            -1,
            0,
        ),
        (
            "%i = arith.index_cast %n : i64 to index; %k = arith.index_cast %three : i64 to index; "
            "%count = affine.apply affine_map<(d0)[s0] -> (s0 * 2 - 3)>(%k)[%i]",
            2,
            1,
        ),
    ],
)
def test_integers_are_what_machines_make_of_them(operations, n, count):
    if "%count" not in operations:
        operations += "; %count = arith.index_cast %j : i64 to index"
    f = function(COUNTED.replace("OPERATIONS", operations.replace("; ", "\n  ")))
    array = np.zeros(300, np.float32)
    f(array[:count], n)
    assert array[:count].all()
    assert not array[count:].any()
    if count:
        with pytest.raises(ValueError, match=f"needs at least {count} elements"):
            f(array[: count - 1], n)


@pytest.mark.parametrize(
    "operations",
    [
        "%axis = arith.constant 7 : index; %dim = memref.dim %a, %axis : memref<?xf32>",
        "%axis = arith.index_cast %n : i64 to index; %dim = memref.dim %a, %axis : memref<?xf32>",
        "%axis = arith.constant 0 : index; %u = memref.cast %a : memref<?xf32> to memref<*xf32>; "
        "%dim = memref.dim %u, %axis : memref<*xf32>",
        "%much = arith.constant 18446744073709551616 : i128; %m = arith.extsi %n : i64 to i128; "
        "%wide = arith.addi %m, %much : i128; %i = arith.trunci %wide : i128 to i64; "
        "%dim = arith.index_cast %i : i64 to index",
    ],
)
def test_sizes_that_are_not_known_ask_nothing(operations):
    """What there is no axis for is undefined: only that it compiles is tested."""
    operations += "; %count = arith.muli %dim, %dim : index"
    function(COUNTED.replace("OPERATIONS", operations.replace("; ", "\n  ")))


def test_calls_with_the_same_arguments_are_looked_through_once():
    copy, _, _ = CALLED.partition("func.func @f")
    functions = [copy.replace("@copy", "@f12")]
    for number in range(12):  # 3**12 ways lead to the last one
        name = "@f" if number == 0 else f"private @f{number}"
        call = f"call @f{number + 1}(%a, %b) : (memref<?xf32>, memref<?xf32>) -> ()\n"
        functions.append(f"func.func {name}(%a: memref<?xf32>, %b: memref<?xf32>) {{")
        functions.append(3 * call + "return }")
    f = function("\n".join(functions))
    f(ones(3), ones(3))
    with pytest.raises(ValueError, match=r"'memref\.copy' .*needs 3 elements"):
        f(ones(3), ones(2))


def test_a_function_that_calls_itself_with_the_same_arguments_is_looked_through_once():
    f = function("""
      func.func private @g(%a: memref<?xf32>, %b: memref<?xf32>, %again: i1) {
        scf.if %again {
          %false = arith.constant false
          func.call @g(%a, %b, %false) : (memref<?xf32>, memref<?xf32>, i1) -> ()
        }
        memref.copy %a, %b : memref<?xf32> to memref<?xf32>
        return
      }
      func.func @f(%a: memref<?xf32>, %b: memref<?xf32>, %again: i1) {
        call @g(%a, %b, %again) : (memref<?xf32>, memref<?xf32>, i1) -> ()
        return
      }""")
    f(ones(3), ones(3), True)
    with pytest.raises(ValueError, match=r"'memref\.copy' .*needs 3 elements"):
        f(ones(3), ones(2), False)


def test_too_many_calls_to_look_through_are_told(monkeypatch):
    text = """
      func.func private @slice(%a: memref<?xf32>, %b: memref<2xf32>, %n: index) {
        %s = memref.subview %a[%n] [2] [1] : memref<?xf32> to memref<2xf32, strided<[1], offset: ?>>
        linalg.copy ins(%s : memref<2xf32, strided<[1], offset: ?>>) outs(%b : memref<2xf32>)
        return
      }
      func.func @f(%a: memref<?xf32>, %b: memref<2xf32>) {"""
    for n in range(3):
        text += f"""
        %n{n} = arith.constant {n} : index
        call @slice(%a, %b, %n{n}) : (memref<?xf32>, memref<2xf32>, index) -> ()"""
    text += "return }"
    function(text)(ones(4), ones(2))
    monkeypatch.setattr(shapes, "_MOST", 2)
    with pytest.raises(ValueError, match=r"cannot be told from the arguments: .* of 'func\.call'"):
        function(text)(ones(4), ones(2))


COUNTED_DOWN = """
func.func private @g(%a: memref<TYPE>, %b: memref<TYPE>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %last = arith.cmpi eq, %n, %zero : index
  scf.if %last {
    memref.copy %a, %b : memref<TYPE> to memref<TYPE>
  } else {
    %less = arith.subi %n, %one : index
    func.call @g(%a, %b, %less) : (memref<TYPE>, memref<TYPE>, index) -> ()
  }
  return
}
func.func @f(%a: memref<TYPE>, %b: memref<TYPE>, %n: index) {
  call @g(%a, %b, %n) : (memref<TYPE>, memref<TYPE>, index) -> ()
  return
}"""


def test_calls_that_are_too_deep_to_look_through_are_told():
    """Where they are made; and where sizes are open at all."""
    f = function(COUNTED_DOWN.replace("TYPE", "?xf32"))
    with pytest.raises(ValueError, match=r"cannot be told from the arguments: .* of 'func\.call'"):
        f(ones(3), ones(3), 20)
    f(ones(3), b := np.zeros(3, np.float32), 2)
    assert b.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match=r"'memref\.copy' .*needs 3 elements .*has 2"):
        f(ones(3), ones(2), 2)
    other = "func.func private @other(%a: memref<?xf32>) { return }"
    static = function(COUNTED_DOWN.replace("TYPE", "3xf32") + other)
    static(ones(3), b := np.zeros(3, np.float32), 20)
    assert b.tolist() == [1, 1, 1]
    inner = """func.func private @copy(%a: memref<3xf32>, %b: memref<3xf32>) {
      %open = memref.cast %a : memref<3xf32> to memref<?xf32>
      memref.copy %open, %b : memref<?xf32> to memref<3xf32>
      return
    }"""
    called = "func.call @copy(%a, %b) : (memref<3xf32>, memref<3xf32>) -> ()"
    text = COUNTED_DOWN.replace("TYPE", "3xf32")
    text = text.replace("memref.copy %a, %b : memref<3xf32> to memref<3xf32>", called)
    with pytest.raises(ValueError, match=r"cannot be told from the arguments: .* of 'func\.call'"):
        function(text + inner)(ones(3), ones(3), 20)
    function(text + inner)(ones(3), ones(3), 2)


def test_branches_that_are_never_taken_call_nothing():
    text, _, _ = COUNTED_DOWN.replace("TYPE", "?xf32").partition("func.func @f")
    text += """func.func @f(%a: memref<?xf32>, %b: memref<?xf32>) {
      %three = arith.constant 3 : index
      call @g(%a, %b, %three) : (memref<?xf32>, memref<?xf32>, index) -> ()
      return
    }"""
    f, module = function(text), load_module(text)
    assert len(requirements(functions_of(module)[-1])) == 1
    f(ones(3), ones(3))
    with pytest.raises(ValueError, match=r"'memref\.copy' .*needs 3 elements .*has 2"):
        f(ones(3), ones(2))


def test_what_a_pointer_calls_demands_is_not_known():
    text = """
      func.func private @copy(%a: memref<?xf32>, %b: memref<?xf32>) {
        memref.copy %a, %b : memref<?xf32> to memref<?xf32>
        return
      }
      func.func @f(%a: memref<?xf32>, %b: memref<?xf32>) {
        %copy = func.constant @copy : (memref<?xf32>, memref<?xf32>) -> ()
        func.call_indirect %copy(%a, %b) : (memref<?xf32>, memref<?xf32>) -> ()
        return
      }"""
    with pytest.raises(ValueError, match=r"cannot be told .* of 'func\.call_indirect'"):
        function(text)(ones(3), ones(3))


def test_calls_with_the_same_arguments_may_give_back_other_sizes():
    text = """
      memref.global "private" @size : memref<index> = dense<2>
      func.func private @next(%a: tensor<?xf32>) -> tensor<?xf32> {
        %one = arith.constant 1 : index
        %zero = arith.constant 0.0 : f32
        %place = memref.get_global @size : memref<index>
        %size = memref.load %place[] : memref<index>
        %more = arith.addi %size, %one : index
        memref.store %more, %place[] : memref<index>
        %empty = tensor.empty(%size) : tensor<?xf32>
        %0 = linalg.fill ins(%zero : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
        return %0 : tensor<?xf32>
      }
      func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {
        %b = call @next(%a) : (tensor<?xf32>) -> tensor<?xf32>
        %c = call @next(%a) : (tensor<?xf32>) -> tensor<?xf32>
        %0 = arith.addf %b, %c : tensor<?xf32>
        return %0 : tensor<?xf32>
      }"""
    with pytest.raises(ValueError, match="whether its sizes fit cannot be told"):
        function(text)(ones(3))


def test_what_cannot_be_lowered_is_said_though_its_sizes_are_known():
    with pytest.raises(UserError, match=r"tensor\.gather"):
        function(FORGOTTEN)


def test_values_that_are_used_twice_are_looked_at_once_however_long_the_chain():
    """Sizes from a chain of `x < 0 ? x + 1 : x`, of which a tree would have 2^800 leaves."""
    steps = "".join(
        f"""%c{i} = arith.cmpi slt, %x{i}, %zero : index
        %m{i} = arith.addi %x{i}, %one : index
        %x{i + 1} = arith.select %c{i}, %m{i}, %x{i} : index
        """
        for i in range(800)
    )
    text = f"""func.func @f(%t: tensor<?xf32>, %x0: index) -> tensor<?xf32> {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      {steps}
      %s = tensor.extract_slice %t[0] [%x800] [1] : tensor<?xf32> to tensor<?xf32>
      return %s : tensor<?xf32>
    }}"""
    function = compile(text, machine="generic-avx2")["f"]
    values = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(function(values, 3), [0, 1, 2])
    with pytest.raises(ValueError, match="needs at least 5 elements along axis 0"):
        function(values, 5)


def chained(links):
    """A chain in a function, and one in a loop. MLIR needs time by the cube of their length."""
    chain = "\n".join(
        f"%t{i + 1} = tensor.insert %v into %t{i}[%c0] : tensor<?xf32>" for i in range(links)
    )
    return f"""
    func.func private @inner(%t0: tensor<?xf32>, %v: f32) -> tensor<?xf32> {{
      %c0 = arith.constant 0 : index
      {chain}
      return %t{links} : tensor<?xf32>
    }}
    func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>, %v: f32) -> tensor<?xf32> {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%t0 = %a) -> tensor<?xf32> {{
        {chain}
        scf.yield %t{links} : tensor<?xf32>
      }}
      %s = call @inner(%r, %v) : (tensor<?xf32>, f32) -> tensor<?xf32>
      %0 = arith.addf %s, %b : tensor<?xf32>
      return %0 : tensor<?xf32>
    }}"""


def test_long_chains_in_loops_and_functions_are_followed_one_by_one():
    """Where Python may recurse 150 calls deeper than the test, not 1000."""
    function(chained(2))  # imports what there is to import
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)
    try:
        f = function(chained(200))
    finally:
        sys.setrecursionlimit(before)
    assert f(ones(2), ones(2), 3.0).tolist() == [4, 2]
    with pytest.raises(ValueError, match=r"needs 2 elements .*has 3"):
        f(ones(2), ones(3), 3.0)


@pytest.mark.parametrize("size", ["?", "5"])
def test_conditions_may_be_joined(size):
    """With a front that only one of them excludes; and what is static is the module's own."""
    f = function(
        f"""func.func @f(%a: memref<{size}xf32>, %b: memref<2xf32>, %n: index) {{
          %c0 = arith.constant 0 : index
          %c3 = arith.constant 3 : index
          %low = arith.cmpi sge, %n, %c0 : index
          %high = arith.cmpi sle, %n, %c3 : index
          %fits = arith.andi %low, %high : i1
          scf.if %fits {{
            %s = memref.subview %a[%n] [2] [1]
                : memref<{size}xf32> to memref<2xf32, strided<[1], offset: ?>>
            memref.copy %s, %b : memref<2xf32, strided<[1], offset: ?>> to memref<2xf32>
          }}
          return
        }}"""
    )
    for n, first in ((-1, 0), (0, 1), (3, 4), (4, 0)):
        b = np.zeros(2, np.float32)
        f(np.arange(1, 6, dtype=np.float32), b, n)
        assert b[0] == first


def test_a_condition_that_wraps_around_is_not_taken_for_false():
    """Where `n + 2` is so large that the machine makes a negative number of it, the branch is
    taken."""
    with pytest.raises(ValueError, match=r"'memref.subview' .*needs at least"):
        function(IF_IT_FITS)(ones(5), ones(2), 2**63 - 1)


class Slow:
    """What takes long to be looked up, so that other threads come in between."""

    def __hash__(self):
        time.sleep(0.01)
        return 0


def test_equal_sizes_are_one_for_all_threads():
    unknown = Unknown((Slow(),))
    with ThreadPoolExecutor(4) as threads:
        first, *others = threads.map(lambda _: compute("add", unknown, 1), range(4))
    assert all(other is first for other in others)


# What was lowered before


SOURCES = (CONV, MATMUL, SLICED, EXPANDED, REVERSED, STEPPED, SHORTENED, SURROUNDED, EITHER)


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_demanded_is_the_same_from_plain_data(source):
    module = load_module(source)
    *_, made = functions_of(module)
    demands = requirements(made)
    assert demands
    data = json.loads(json.dumps(as_data(demands)))
    assert from_data(data, function(source).entry.parameters) == demands


DIVIDED = COUNTED.replace(
    "OPERATIONS",
    """%j = arith.divui %n, %three : i64
  %count = arith.index_cast %j : i64 to index""",
)
"""By numbers of more than 64 bits."""

LOWERED_TWICE = [
    (CALLED, (ones(3), ones(2)), "'memref.copy' .<text>:3:3. needs 3 elements"),
    (MATMUL, (ones(2, 3), ones(2, 4)), "'linalg.matmul' .*needs 3 .*axis 0 of its operand 1"),
    (STATIC_SLICE, (ones(5), ones(2), 4), "'memref.subview' .*at least 6 elements .*has 5"),
    (DIVIDED, (ones(8), -1), f"needs at least {(2**64 - 1) // 3} elements"),
]


@pytest.mark.parametrize(("source", "arguments", "message"), LOWERED_TWICE)
def test_a_lowered_module_still_says_what_it_demands(tmp_path, source, arguments, message):
    options = CompileOptions(machine="generic-avx2")
    with sink(lambda _: None):
        compile_to_file(source, tmp_path / "once.mlir", options)
    with sink(pytest.fail):
        compile_to_file(tmp_path / "once.mlir", tmp_path / "twice.mlir", options)
        lowered = compile(tmp_path / "twice.mlir", machine="generic-avx2")["f"]
    with pytest.raises(ValueError, match=f"f: .*{message}"):
        lowered(*arguments)


def test_functions_of_a_lowered_module_are_run_by_name(tmp_path):
    text = """func.func @{}(%a: memref<4xf32>, %b: memref<4xf32>) {{
      memref.copy %a, %b : memref<4xf32> to memref<4xf32>
      return
    }}"""
    low = tmp_path / "low.mlir"
    compile_to_file("\n".join(map(text.format, "fg")), low, CompileOptions(machine="haswell"))
    with pytest.raises(UserError, match="has 2 functions, name one with --entry: f, g"):
        run_entry(low)
    assert run_entry(low, "g", RunOptions(repeat=1)).entry == "g"
    with pytest.raises(UserError, match="no function 'h'; known: f, g"):
        run_entry(low, "h")


def test_a_lowered_module_runs_where_sizes_fit(tmp_path):
    compile_to_file(CALLED, tmp_path / "low.mlir", CompileOptions(machine="generic-avx2"))
    target = np.zeros(3, np.float32)
    compile(tmp_path / "low.mlir")["f"](ones(3), target)
    np.testing.assert_array_equal(target, ones(3))


@pytest.mark.parametrize("type_", ["memref<?xf32>", "memref<8xf32>"])
def test_a_module_that_does_not_say_what_it_demands_is_warned_of(tmp_path, type_):
    module = load_module(f"""
    func.func @f(%a: {type_}, %b: {type_}) {{
      linalg.add ins(%a, %a : {type_}, {type_}) outs(%b : {type_})
      return
    }}""")
    run_passes(module, "mopt-lower-to-llvm")
    said = []
    for name in ("once", "twice"):  # whoever does not know does not write that nothing is asked
        with sink(said.append):
            compile_to_file(module, tmp_path / f"{name}.mlir", CompileOptions(machine="haswell"))
        module = tmp_path / f"{name}.mlir"
    if type_ == "memref<8xf32>":
        assert not said
        return
    assert [diagnostic.severity for diagnostic in said] == ["warning"] * 2
    assert all("calls of @f do not check" in diagnostic.message for diagnostic in said)


@pytest.mark.parametrize(
    "entry", ["{}", "3", "{parameters = [], results = [{}]}", '{parameters = "x", results = []}',
    "{parameters = [{name = 3, type = 4}], results = []}"],
)  # fmt: skip
def test_an_entry_that_nobody_wrote_is_refused(entry):
    text = f"llvm.func @f() attributes {{mopt.entry = {entry}}} {{\n  llvm.return\n}}"
    with pytest.raises(UserError, match=r"<text>:1:1: error: 'mopt\.entry': not as mopt-compile"):
        compile(text)


@pytest.mark.parametrize(
    ("found", "written", "message"),
    [
        ('"extent 0 0"', '"extent 2 0"', "'extent 2 0' is no size of this function"),
        ('"extent 0 0"', '"extent 0 1"', "'extent 0 1' is no size of this function"),
        ('"extent 0 0"', '"scalar 0"', "'scalar 0' is no size of this function"),
        ('"extent 0 0"', '"add 0 1"', "'add 0 1' is no size of this function"),
        ('"extent 0 0"', '"extent"', "'extent' is no size"),
        (", size = ", ", other = ", "no field 'demands.0..other'"),
        ("size = 0", "size = 7", "size = 7 is the place of no size"),
        ("sizes = ", "extents = ", "no field 'extents'"),
    ],
)
def test_what_is_demanded_is_read_with_care(tmp_path, found, written, message):
    compile_to_file(CALLED, tmp_path / "low.mlir", CompileOptions(machine="generic-avx2"))
    text = (tmp_path / "low.mlir").read_text()
    assert found in text
    with pytest.raises(UserError, match=f"'mopt.entry': .*{message}"):
        compile(text.replace(found, written))
