// SPDX-License-Identifier: Apache-2.0
// A kernel of a device: given to the device's driver, on a stream.
//
// Invariant: nothing here reads or writes a tensor's data. Inference has
// checked that all tensors lie on one device.

#include "call/call.h"
#include "device/driver.h"

static const char *param_name(const og_decl *decl, int32_t t) {
  return decl->params[decl->tensor_params[t]].name;
}

static og_status strides_check(const opgraft_frame *frame, const char *name,
                               const og_tensor *tensor, og_stride_rule rule,
                               opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  if (og_strides_fit(tensor, rule)) return OG_OK;
  return og_error_set(error, OG_UNSUPPORTED, decl->name, name,
                      "%s: %s has strides that its declaration does not "
                      "accept; give it row-major, for memory of a device is "
                      "not copied here",
                      decl->name, name);
}

static og_status argument_check(opgraft_frame *frame, int32_t t,
                                opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  const bool is_list = decl->params[decl->tensor_params[t]].is_list;
  const char *name = param_name(decl, t);
  if (!is_list) {
    frame->in_list[t] = (og_tensor_list){0};
    return frame->in[t] == NULL ? OG_OK
                                : strides_check(frame, name, frame->in[t],
                                                decl->strides[t], error);
  }
  const og_tensor_list *list = &frame->in_list[t];
  for (int64_t i = 0; i < list->count; ++i)
    if (list->tensors[i] != NULL)
      OG_TRY(strides_check(frame, name, list->tensors[i], decl->strides[t],
                           error));
  return OG_OK;
}

static og_status results_check(const opgraft_frame *frame,
                               opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  if (decl->has_data_dependent_result)
    return og_error_set(error, OG_UNSUPPORTED, decl->name, NULL,
                        "%s: a result's size depends on data, which only the "
                        "device knows; run it on the CPU",
                        decl->name);
  for (int32_t i = 0; i < frame->fresh_count; ++i)
    if (!decl->results[decl->fresh_results[i]].is_list)
      OG_TRY(strides_check(frame, "out", &frame->fresh[i],
                           decl->shapes[i].kind == OG_SHAPE_LIKE
                               ? OG_STRIDES_ANY
                               : OG_STRIDES_CONTIGUOUS,
                           error));
  return OG_OK;
}

// A driver without `launch` has the kernel run here, as the CPU's do.
static og_status kernel_give(opgraft_driver *driver, opgraft_frame *frame,
                             const og_launch *launch, opgraft_error *error) {
  if (!og_driver_has_launch(driver))
    return og_frame_run_explained(frame, error);
  return opgraft_driver_launch(driver, frame->call.stream, launch, error);
}

// Its memory is released when the stream has passed the kernel, of which a
// launch that failed may have left something: `run` of a driver without launch
// gives the stream work by itself.
static og_status workspace_launch(opgraft_driver *driver, opgraft_frame *frame,
                                  const og_launch *launch,
                                  opgraft_error *error) {
  og_call *call = &frame->call;
  OG_TRY(opgraft_driver_allocate(driver, launch->device, call->workspace_bytes,
                                 "workspace", &call->workspace, error));
  og_status status = kernel_give(driver, frame, launch, error);
  if (status == OG_OK)
    status = opgraft_driver_stream_synchronize(driver, call->stream, -1, error);
  else
    og_driver_stream_wait(driver, call->stream);
  const og_status freed = opgraft_driver_free(
      driver, launch->device, call->workspace, status == OG_OK ? error : NULL);
  call->workspace = NULL;
  return status != OG_OK ? status : freed;
}

// On a stream of the host's own, whose memory is the host's too.
static og_status host_launch(opgraft_frame *frame, opgraft_error *error) {
  const og_call *call = &frame->call;
  const char *name = frame->op->decl->name;
  if (call->workspace_bytes > 0 && call->workspace == NULL)
    return og_error_set(error, OG_INVALID, name, NULL,
                        "%s: its kernel for %s needs %zu bytes of workspace on "
                        "the device; set call.workspace, or load a driver",
                        name, og_device_name(frame->kernel->device),
                        call->workspace_bytes);
  return og_frame_run_explained(frame, error);
}

// The device of the first tensor that was given, else of the first result.
static int32_t device_id(const opgraft_frame *frame) {
  const og_decl *decl = frame->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const bool is_list = decl->params[decl->tensor_params[t]].is_list;
    const og_tensor_list *list = &frame->in_list[t];
    if (!is_list && frame->in[t] != NULL) return frame->in[t]->device.id;
    for (int64_t i = 0; is_list && i < list->count; ++i)
      if (list->tensors[i] != NULL) return list->tensors[i]->device.id;
  }
  return frame->fresh_count > 0 ? frame->fresh[0].device.id : 0;
}

og_status og_frame_launch_make(opgraft_frame *frame, og_launch *out_launch,
                               opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    OG_TRY(argument_check(frame, t, error));
  OG_TRY(results_check(frame, error));
  *out_launch = (og_launch){
      .struct_size = sizeof *out_launch,
      .device = device_id(frame),
      .name = decl->name,
      .run = frame->kernel->run,
      .call = &frame->call,
      .in_count = decl->tensor_count,
      .out_count = decl->mutated_count + frame->fresh_count,
      .attr_count = decl->attr_count,
      .dim_count = decl->dim_count,
  };
  return OG_OK;
}

og_status og_frame_launch(opgraft_frame *frame, opgraft_error *error) {
  const og_decl *decl = frame->op->decl;
  og_call *call = &frame->call;
  og_launch launch;
  opgraft_driver *driver = opgraft_driver_find(frame->kernel->device);
  if (driver == NULL && call->stream == NULL)
    return og_error_set(
        error, OG_DEVICE, decl->name, NULL,
        "%s: no driver of a device %s is loaded; load one first", decl->name,
        og_device_name(frame->kernel->device));
  OG_TRY(og_frame_launch_make(frame, &launch, error));
  if (driver == NULL) return host_launch(frame, error);
  if (call->stream == NULL)
    call->stream = opgraft_driver_current_stream(driver, launch.device);
  if (call->workspace_bytes > 0 && call->workspace == NULL)
    return workspace_launch(driver, frame, &launch, error);
  return kernel_give(driver, frame, &launch, error);
}
