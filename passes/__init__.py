"""The passes, one file each; `mopt_mlir.pass_registry` finds them without importing them."""
