# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=src -DOUTPUT=FILE -P: the definition of og_kernels_key, a hash of
# the code that races of kernels time.
file(GLOB_RECURSE sources ${ROOT}/kernel/*.* ${ROOT}/exec/*.* ${ROOT}/loop/*.*)
list(SORT sources)
set(all)
foreach(source IN LISTS sources)
  file(SHA256 ${source} one)
  string(APPEND all ${one})
endforeach()
string(SHA256 key "${all}")
string(SUBSTRING ${key} 0 12 key)
file(WRITE ${OUTPUT} "#include \"exec/choose/tune.h\"
const char og_kernels_key[] = \"${key}\";
")
