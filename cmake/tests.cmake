# SPDX-License-Identifier: Apache-2.0
# tests/unit/*.c and tests/tools/*.c: one executable each, with the files of the
# folder of its name, if there is one. tests/modules/*.c:
# one operator module each. tests/fuzz/*.c: one fuzzer each, beside driver.c.
add_custom_target(fuzz_programs)
add_custom_target(test_modules)

function(opgraft_add_test_programs folder)
  add_custom_target(${folder}_programs)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${folder}/*.c)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    set(target ${folder}_${name})
    file(GLOB parts CONFIGURE_DEPENDS
      ${CMAKE_SOURCE_DIR}/tests/${folder}/${name}/*.c)
    if(EXISTS ${CMAKE_SOURCE_DIR}/tests/${folder}/${name}/vectors.inc)
      opgraft_isa_sources(parts ${CMAKE_SOURCE_DIR}/tests
        ${folder}/${name}/vectors)
    endif()
    add_executable(${target} ${source} ${parts})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name}
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${folder})
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}
      ${CMAKE_SOURCE_DIR}/tests)
    target_compile_definitions(${target} PRIVATE
      TEST_MODULE_DIR="${CMAKE_BINARY_DIR}/tests/modules"
      TEST_OPS_DIR="${CMAKE_BINARY_DIR}/modules"
      TEST_DEVICE_DIR="${CMAKE_BINARY_DIR}/devices"
      TEST_CUDA_DIR="${CMAKE_BINARY_DIR}/tests/cuda"
      TEST_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(${target} PRIVATE og_core)
    add_dependencies(${folder}_programs ${target})
    if(folder STREQUAL "unit")
      add_test(NAME unit_${name} COMMAND ${target})
    endif()
  endforeach()
endfunction()
opgraft_add_test_programs(unit)
add_dependencies(unit_programs opgraft_device_npu_sim)
opgraft_add_test_programs(tools)

# CUDA's driver library without a GPU. Its name is that of the real one, which
# whoever opens it afterwards in the same process gets as well.
add_library(test_fake_cuda SHARED
  ${CMAKE_SOURCE_DIR}/tests/cuda/fake_graph.c
  ${CMAKE_SOURCE_DIR}/tests/cuda/fake_libcuda.c
  ${CMAKE_SOURCE_DIR}/tests/cuda/fake_memory.c
  ${CMAKE_SOURCE_DIR}/tests/cuda/fake_stream.c)
set_target_properties(test_fake_cuda PROPERTIES OUTPUT_NAME cuda
  SUFFIX ".so.1" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/cuda)
target_link_options(test_fake_cuda PRIVATE -Wl,-soname,libcuda.so.1)
add_library(test_cuda_kernels MODULE ${CMAKE_SOURCE_DIR}/tests/cuda/kernels.c)
set_target_properties(test_cuda_kernels PROPERTIES PREFIX ""
  OUTPUT_NAME kernels LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/cuda)
foreach(target IN ITEMS test_fake_cuda test_cuda_kernels)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE opgraft_headers Threads::Threads
    ${CMAKE_DL_LIBS})
  add_dependencies(unit_programs ${target})
endforeach()
add_dependencies(unit_programs opgraft_device_cuda)

# The program with one pass more, which is wrong: what `run --bisect` must name.
# Its passes.def is found before the engine's; the engine's pass.c stays out.
if(TARGET opgraft_cli)
  add_executable(opgraft_wrong_pass $<TARGET_OBJECTS:opgraft_cli>
    ${CMAKE_SOURCE_DIR}/tests/wrong_pass/wrong.c
    ${CMAKE_SOURCE_DIR}/src/pass/pass.c)
  set_target_properties(opgraft_wrong_pass PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/wrong_pass)
  target_include_directories(opgraft_wrong_pass BEFORE PRIVATE
    ${CMAKE_SOURCE_DIR}/tests/wrong_pass ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(opgraft_wrong_pass PRIVATE og_core
    $<TARGET_PROPERTY:opgraft_cli,LINK_LIBRARIES>)
endif()

# What the Python tests of a package with sanitizers need of a build.
if(TARGET opgraft_python)
  add_custom_target(package_parts DEPENDS opgraft_python opgraft_cli
    ${opgraft_op_targets})
endif()

file(GLOB opgraft_test_modules CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/tests/modules/*.c)
foreach(source IN LISTS opgraft_test_modules)
  get_filename_component(name ${source} NAME_WE)
  opgraft_add_module(test_module_${name} ${source})
  set_target_properties(test_module_${name} PROPERTIES OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/modules)
  add_dependencies(test_modules test_module_${name})
  if(OPGRAFT_SANITIZE STREQUAL "address")
    # A module that is wrong on purpose must get as far as check sees it.
    target_compile_options(test_module_${name} PRIVATE -fno-sanitize=alignment)
  endif()
endforeach()

file(GLOB opgraft_fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*.c)
set(opgraft_fuzz_driver ${CMAKE_SOURCE_DIR}/tests/fuzz/driver.c)
list(REMOVE_ITEM opgraft_fuzzers ${opgraft_fuzz_driver})
foreach(source IN LISTS opgraft_fuzzers)
  get_filename_component(name ${source} NAME_WE)
  add_executable(fuzz_${name} ${source} ${opgraft_fuzz_driver})
  set_target_properties(fuzz_${name} PROPERTIES OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fuzz)
  target_include_directories(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(fuzz_${name} PRIVATE og_core)
  add_dependencies(fuzz_programs fuzz_${name})
endforeach()
# Those of host adapters are the host, and hold the module that is served.
foreach(host IN ITEMS aoti jax onnxruntime tensorflow tvm_ffi)
  set(name fuzz_host_${host})
  target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/conformance/kinds.c)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/hosts)
  target_link_libraries(${name} PRIVATE opgraft_host_${host} opgraft_host)
endforeach()
target_sources(fuzz_host_tvm_ffi PRIVATE
  ${CMAKE_SOURCE_DIR}/tests/conformance/stub_tvm_ffi.c)
target_compile_definitions(fuzz_host_tvm_ffi PRIVATE LISTS)
# These adapters look the host's functions up, and find the program's.
foreach(host IN ITEMS aoti tensorflow tvm_ffi)
  set_target_properties(fuzz_host_${host} PROPERTIES ENABLE_EXPORTS ON)
endforeach()
foreach(host IN ITEMS aoti tensorflow)
  target_compile_definitions(fuzz_host_${host} PRIVATE MORE_KINDS)
endforeach()
target_sources(fuzz_gguf PRIVATE
  ${CMAKE_SOURCE_DIR}/hosts/torch/gguf/reader.c)
target_include_directories(fuzz_gguf PRIVATE ${CMAKE_SOURCE_DIR}/hosts)
set_source_files_properties(${CMAKE_SOURCE_DIR}/hosts/torch/gguf/reader.c
  PROPERTIES COMPILE_OPTIONS "${opgraft_coverage}")
# It loads the operator library, whose coverage calls back into it.
target_include_directories(fuzz_ops PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(fuzz_ops PRIVATE
  FUZZ_OPS_DIR="${CMAKE_BINARY_DIR}/modules")
set_target_properties(fuzz_ops PROPERTIES ENABLE_EXPORTS ON)
add_dependencies(fuzz_ops ${opgraft_op_targets})

# For a machine with a GPU: tests/gpu/driver.c says how to run it.
add_executable(gpu_driver EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/gpu/driver.c
  ${CMAKE_SOURCE_DIR}/devices/cuda/api.c)
set_target_properties(gpu_driver PROPERTIES OUTPUT_NAME driver
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/gpu)
target_include_directories(gpu_driver PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(gpu_driver PRIVATE opgraft_headers Threads::Threads
  ${CMAKE_DL_LIBS})
add_dependencies(gpu_driver opgraft_device_cuda)

# Without a GPU: the operators' CUDA kernels as host code, a libcuda that runs
# them, and a libnvrtc that compiles nothing.
file(GLOB opgraft_cuda_kernels CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/ops/cuda/*.cu)
set_source_files_properties(${opgraft_cuda_kernels} PROPERTIES
  LANGUAGE C COMPILE_OPTIONS "-xc")
set(opgraft_cuda_test_dir ${CMAKE_BINARY_DIR}/tests/cuda)
add_library(cuda_fake_kernels MODULE ${opgraft_cuda_kernels})
target_include_directories(cuda_fake_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(cuda_fake_kernels PRIVATE opgraft_headers m)
add_library(cuda_launch_only MODULE ${CMAKE_SOURCE_DIR}/tests/cuda/launch_only.c)
set_target_properties(cuda_launch_only PROPERTIES OUTPUT_NAME cuda
  SUFFIX .so.1 LINK_OPTIONS -Wl,-soname,libcuda.so.1)
target_link_libraries(cuda_launch_only PRIVATE ${CMAKE_DL_LIBS})
add_library(cuda_fake_nvrtc MODULE ${CMAKE_SOURCE_DIR}/tests/cuda/fake_nvrtc.c)
target_compile_definitions(cuda_fake_nvrtc PRIVATE _GNU_SOURCE)
set_target_properties(cuda_fake_kernels cuda_launch_only cuda_fake_nvrtc
  PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${opgraft_cuda_test_dir})
set_target_properties(cuda_launch_only PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${opgraft_cuda_test_dir}/launch_only)
set_target_properties(cuda_fake_kernels PROPERTIES PREFIX "")
target_compile_definitions(unit_cuda_ops PRIVATE
  TEST_CUDA_DIR="${opgraft_cuda_test_dir}")
add_dependencies(unit_cuda_ops cuda_fake_kernels cuda_launch_only
  cuda_fake_nvrtc ${opgraft_op_targets})
add_dependencies(unit_programs cuda_fake_kernels cuda_launch_only
  cuda_fake_nvrtc)
