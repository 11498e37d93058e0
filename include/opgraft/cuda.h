// SPDX-License-Identifier: Apache-2.0
// CUDA kernels of an operator file: how a kernel's `run` on the host gives one
// to the call's stream. The code is embedded in the module by `opgraft build
// op.c op.cu` (or opgraft_add_module), which links the functions here in too:
//
//   OG_CUDA_CODE(scale);  // of scale.cu, scale.ptx or scale.cubin
//
//   static og_status scale_cuda(const og_call *call) {
//     scale_args args = {...};
//     void *parameters[] = {&args};
//     return og_cuda_launch(call, &og_cuda_code_scale, "scale_f32",
//                           &(og_cuda_shape){.grid = {blocks},
//                                            .block = {256},
//                                            .tensor = call->out[0]},
//                           parameters, 1);
//   }
//
// Nothing of CUDA is linked: libcuda.so.1 is opened at the first launch, and
// libnvrtc where the code is CUDA source. Code is loaded at its first launch,
// once for the process, and is not unloaded. Any thread may call these
// functions, at once with others.

#ifndef OPGRAFT_CUDA_H
#define OPGRAFT_CUDA_H

#include <opgraft/op.h>

#ifdef __cplusplus
extern "C" {
#endif

// What was loaded of a code object; devices/cuda/module.c knows its fields.
typedef struct og_cuda_loaded og_cuda_loaded;

// A cubin or fatbin, PTX, or CUDA source: which one, the bytes say. A NUL
// stands behind the last byte.
typedef struct og_cuda_code {
  const char *name;  // the file's, for messages
  const void *bytes;
  const void *end;
  og_cuda_loaded **loaded;  // NULL at first; og_cuda_launch's
} og_cuda_code;

// The code object of the file NAME.cu, as og_cuda_code_NAME.
#define OG_CUDA_CODE(name) extern const og_cuda_code og_cuda_code_##name

// Zero means 1 in `grid` and `block`.
typedef struct og_cuda_shape {
  uint32_t grid[3];       // blocks
  uint32_t block[3];      // threads of a block
  uint32_t shared_bytes;  // dynamic shared memory of a block
  uint32_t reserved;
  const og_tensor *tensor;  // any of the call's: it says which device
} og_cuda_shape;

// Puts the kernel on call->stream, with the parameters that parameters[i]
// points to, which are read before this returns; `count` is how many the kernel
// has. Where the thread has no current context, or another device's, the
// primary context of the tensor's device is used. OG_DEVICE: there is no driver
// or device; OG_KERNEL: the source does not compile, the kernel is missing or
// the launch was refused. Both are explained by og_fail. A kernel's own faults
// are seen by whoever waits for the stream. A first launch compiles and loads,
// which a capture of the stream may refuse: launch once before.
og_status og_cuda_launch(const og_call *call, const og_cuda_code *code,
                         const char *kernel, const og_cuda_shape *shape,
                         void *const *parameters, int32_t count);

// Streaming multiprocessors of the device that has `tensor`, for the size of a
// grid whose blocks take work in turn. OG_DEVICE as above.
og_status og_cuda_multiprocessors(const og_call *call, const og_tensor *tensor,
                                  int32_t *out_count);

// Defines og_cuda_code_NAME with the bytes of a file, which the assembler
// reads: what `opgraft build` writes for each .cu, .ptx and .cubin.
#define OG_CUDA_EMBED(name, title, path)                             \
  __asm__(                                                           \
      ".section .rodata\n"                                           \
      ".hidden og_cuda_bytes_" #name "\n.globl og_cuda_bytes_" #name \
      "\n"                                                           \
      ".hidden og_cuda_end_" #name "\n.globl og_cuda_end_" #name     \
      "\n"                                                           \
      ".balign 16\n"                                                 \
      "og_cuda_bytes_" #name ":\n.incbin \"" path                    \
      "\"\n"                                                         \
      "og_cuda_end_" #name                                           \
      ":\n.byte 0\n"                                                 \
      ".previous\n");                                                \
  extern const unsigned char og_cuda_bytes_##name[]                  \
      __attribute__((visibility("hidden")));                         \
  extern const unsigned char og_cuda_end_##name[]                    \
      __attribute__((visibility("hidden")));                         \
  static og_cuda_loaded *og_cuda_loaded_##name;                      \
  extern const og_cuda_code og_cuda_code_##name;                     \
  const og_cuda_code og_cuda_code_##name = {                         \
      title, og_cuda_bytes_##name, og_cuda_end_##name, &og_cuda_loaded_##name}

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_CUDA_H
