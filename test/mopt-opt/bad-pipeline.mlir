// RUN: not mopt-opt %s --pass-pipeline='builtin.module(cse,mopt-analyze{machin=znver5})' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OPTION --strict-whitespace
// RUN: not mopt-opt %s --pass-pipeline='builtin.module(func.func(cse,mopt-analyze))' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NESTED
// RUN: not mopt-opt %s --cse --canonicalise 2>&1 | FileCheck %s --check-prefix=TYPO

//      OPTION:{{^}}--pass-pipeline:1:20: error: mopt-analyze: no option is called 'machin'; did you mean 'machine'?
// OPTION-NEXT:{{^}}builtin.module(cse,mopt-analyze{machin=znver5})
// OPTION-NEXT:{{^}}                   ^
// NESTED: --pass-pipeline:1:30: error: 'mopt-analyze' runs on the whole module
// TYPO: --canonicalise: error: 'canonicalise' is not a registered pass; did you mean 'canonicalize'?
