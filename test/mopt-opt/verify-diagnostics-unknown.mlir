// RUN: mopt-opt %s --verify-diagnostics --mopt-analyze="machine=znver5 threads=9"

// What is said of a module as a whole stands at no line of the source.
// expected-error@unknown {{threads=9: machine 'znver5' has 8 cores}}
func.func @f() {
  return
}
