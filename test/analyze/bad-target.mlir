// REQUIRES: avx2
// RUN: not mopt-opt --mopt-analyze %s 2>&1 | FileCheck %s
// RUN: mopt-opt --mopt-analyze="machine=haswell" %s

// CHECK: bad-target.mlir:[[# @LINE + 1]]:1: error: the target attributes of the module do not describe a machine: "L1_cache_size_in_bytes" = "32 KB": not a whole number; correct them, or name a machine, e.g. machine=host
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "CPU" = #dlti.target_device_spec<"L1_cache_size_in_bytes" = "32 KB">>} {
}
