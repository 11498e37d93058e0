# SPDX-License-Identifier: Apache-2.0
# Device drivers. devices/npu_*.c is one of them, the simulated NPU: npu_sim.so.
file(GLOB opgraft_npu_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/devices/npu_*.c)
opgraft_add_module(opgraft_device_npu_sim ${opgraft_npu_sources})
set_target_properties(opgraft_device_npu_sim PROPERTIES OUTPUT_NAME npu_sim
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/devices)
target_link_libraries(opgraft_device_npu_sim PRIVATE Threads::Threads)

# devices/cuda: GPUs through CUDA's driver library, which it opens when it is
# loaded: nothing of CUDA is needed to build it.
opgraft_add_module(opgraft_device_cuda
  ${CMAKE_SOURCE_DIR}/devices/cuda/api.c
  ${CMAKE_SOURCE_DIR}/devices/cuda/capture.c
  ${CMAKE_SOURCE_DIR}/devices/cuda/context.c
  ${CMAKE_SOURCE_DIR}/devices/cuda/driver.c
  ${CMAKE_SOURCE_DIR}/devices/cuda/memory.c
  ${CMAKE_SOURCE_DIR}/devices/cuda/stream.c)
set_target_properties(opgraft_device_cuda PROPERTIES OUTPUT_NAME cuda
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/devices)
target_link_libraries(opgraft_device_cuda PRIVATE Threads::Threads
  ${CMAKE_DL_LIBS})
