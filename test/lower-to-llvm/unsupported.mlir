// RUN: mopt-opt --mopt-lower-to-llvm --split-input-file --verify-diagnostics %s

func.func @device(%i: index) -> index {
  // expected-error @+1 {{'gpu.thread_id' cannot be lowered to LLVM}}
  %thread = gpu.thread_id x
  return %thread : index
}

// -----

// expected-warning @+1 {{@mask cannot be called from C: it has a parameter or result of type vector<4xi1>}}
func.func @mask(%mask: vector<4xi1>) {
  return
}
