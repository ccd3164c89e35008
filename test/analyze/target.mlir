// REQUIRES: avx2
// RUN: mopt-opt --mopt-analyze %s | FileCheck %s
// RUN: mopt-opt --mopt-analyze="machine=generic-avx512" %s | FileCheck %s --check-prefix=NAMED
// RUN: mopt-opt --mopt-analyze="machine={auto,L1.size=16384,L1.ways=4}" %s | FileCheck %s --check-prefix=OVERRIDE

// What the module says of its target counts more than the host, and less than a given machine.

// CHECK:    machine = "host{{.*}},L2.size=131072
// CHECK:    vector = 8
// NAMED:    machine = "generic-avx512"
// NAMED:    vector = 16
// OVERRIDE: machine = "host{{.*}},L2.size=131072{{.*}},L1.size=16384,L1.ways=4"
// OVERRIDE: vector = 8
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "CPU" = #dlti.target_device_spec<"L2_cache_size_in_bytes" = 131072 : i32, "max_vector_op_width" = 256 : i32>,
    "GPU" = #dlti.target_device_spec<"max_vector_op_width" = 64 : ui32>>} {
  func.func @conv(%input: memref<1x34x34x64xf32>, %weights: memref<64x3x3x64xf32>,
                  %output: memref<1x32x32x64xf32>) {
    linalg.conv_2d_nhwc_fhwc
      ins(%input, %weights : memref<1x34x34x64xf32>, memref<64x3x3x64xf32>)
      outs(%output : memref<1x32x32x64xf32>)
    return
  }
}
