// RUN: mopt-opt %s --split-input-file="// next" | FileCheck %s

// CHECK: func.func @f
// CHECK: // next
// CHECK: func.func @f
func.func @f() { return }
// next
func.func @f() { return }
// -----
