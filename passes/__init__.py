"""The passes, one file each; `mopt_mlir.pass_registry` finds them by name without importing them."""
