// SPDX-License-Identifier: Apache-2.0
// A device for what torch reaches from C++ alone: the guard (current device,
// streams, events), the hooks (generators, pinned memory, storages that grow),
// the allocator with its statistics, new tensors, the profiler's events.
//
// The only C++ of opgraft. It is compiled on the user's machine for the torch
// that is there (python/opgraft/_device/registry.py), and passes every call on
// to registry.h's table; nothing is decided here.

#include "registry.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace {

using c10::DataPtr;
using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);
constexpr int64_t kForEver = -1;

const registry_table *table;

// Calls a function of the table, whose failure torch throws.
template <typename... Parameters, typename... Arguments>
og_status call(og_status (*function)(Parameters...), Arguments... arguments) {
  opgraft_error error;
  const og_status status = function(arguments..., &error);
  TORCH_CHECK(status == OG_OK || status == OG_BUSY, error.text);
  return status;
}

Device device_of(int32_t index) {
  return Device(kType, static_cast<DeviceIndex>(index));
}

int32_t index_of(Device device) {
  return device.has_index() ? device.index() : table->device_get();
}

Stream stream_of(Device device, int64_t number) {
  return Stream(Stream::UNSAFE, device_of(index_of(device)), number);
}

// Functions that torch has got since 2.11 are without `override`.

// --- Devices, streams, events ------------------------------------------------

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  DeviceIndex deviceCount() const noexcept override {
    return static_cast<DeviceIndex>(table->device_count);
  }
  Device getDevice() const override { return device_of(table->device_get()); }
  void setDevice(Device device) const override {
    if (device.has_index()) call(table->device_set, int32_t{device.index()});
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) table->device_set(device.index(), nullptr);
  }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  void synchronizeDevice(const DeviceIndex index) const override {
    call(table->device_synchronize, int32_t{index});
  }

  Stream getStream(Device device) const override {
    return stream_of(device, table->stream_current(index_of(device)));
  }
  Stream getDefaultStream(Device device) const override {
    return stream_of(device, 0);
  }
  Stream getNewStream(Device device, int) const override {
    int64_t number = 0;
    call(table->stream_create, index_of(device), &number);
    return stream_of(device, number);
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override {
    return getNewStream(device, 0);
  }
  Stream exchangeStream(Stream stream) const override {
    const Device device = stream.device();
    return stream_of(device,
                     table->stream_exchange(index_of(device), stream.id()));
  }
  virtual void *getStreamNativeHandle(const Stream stream) const {
    return table->stream_native(index_of(stream.device()), stream.id());
  }
  bool queryStream(const Stream &stream) const override {
    return wait(stream, 0) == OG_OK;
  }
  void synchronizeStream(const Stream &stream) const override {
    wait(stream, kForEver);
  }

  void record(void **event, const Stream &stream, const DeviceIndex,
              const c10::EventFlag) const override {
    call(table->event_record, event, index_of(stream.device()), stream.id());
  }
  void block(void *event, const Stream &stream) const override {
    if (event == nullptr) return;
    call(table->event_wait, event, index_of(stream.device()), stream.id());
  }
  bool queryEvent(void *event) const override {
    return event == nullptr ||
           call(table->event_synchronize, event, int64_t{0}) == OG_OK;
  }
  void synchronizeEvent(void *event) const override {
    if (event != nullptr) call(table->event_synchronize, event, kForEver);
  }
  double elapsedTime(void *begin, void *end, const DeviceIndex) const override {
    int64_t elapsed_ns = 0;
    call(table->event_elapsed, begin, end, &elapsed_ns);
    return static_cast<double>(elapsed_ns) / 1e6;
  }
  void destroyEvent(void *event, const DeviceIndex) const noexcept override {
    if (event != nullptr) table->event_destroy(event);
  }

  void recordDataPtrOnStream(const DataPtr &data,
                             const Stream &stream) const override {
    call(table->memory_record, static_cast<const void *>(data.get()),
         index_of(stream.device()), stream.id());
  }

 private:
  static og_status wait(const Stream &stream, int64_t timeout_ns) {
    return call(table->stream_synchronize, index_of(stream.device()),
                stream.id(), timeout_ns);
  }
};

// --- Memory ------------------------------------------------------------------

void memory_give(void *owner) { table->memory_give(owner); }

DataPtr memory_take(int32_t index, size_t size_bytes) {
  void *address = nullptr, *owner = nullptr;
  call(table->memory_take, index, size_bytes, &address, &owner);
  return {address, owner, memory_give, device_of(index)};
}

c10::CachingAllocator::StatArray stat_of(const memory_count &count) {
  c10::CachingAllocator::StatArray found;
  auto &all =
      found[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  all.current = count.current;
  all.peak = count.peak;
  all.allocated = count.added;
  all.freed = count.removed;
  return found;
}

struct Allocator final : c10::DeviceAllocator {
  DataPtr allocate(size_t size_bytes) override {
    return memory_take(table->device_get(), size_bytes);
  }
  void copy_data(void *to, const void *from, size_t size_bytes) const override {
    call(table->memory_copy, table->device_get(), to, from, size_bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { call(table->memory_trim); }
  void recordStream(const DataPtr &data, Stream stream) override {
    Guard().recordDataPtrOnStream(data, stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      DeviceIndex index) override {
    const memory_stats found = table->memory_stats_get(index);
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocation = stats.active = stat_of(found.tensors);
    stats.allocated_bytes = stats.active_bytes = stats.requested_bytes =
        stat_of(found.tensor_bytes);
    stats.reserved_bytes = stat_of(found.held_bytes);
    stats.num_device_alloc = found.driver_count;
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex index) override {
    table->memory_reset_added(index);
  }
  void resetPeakStats(DeviceIndex index) override {
    table->memory_reset_peak(index);
  }
  virtual std::pair<size_t, size_t> getMemoryInfo(DeviceIndex index) {
    size_t free_bytes = 0, total_bytes = 0;
    call(table->memory_info, int32_t{index}, &free_bytes, &total_bytes);
    return {free_bytes, total_bytes};
  }
};

void host_give(void *address) { table->host_give(address); }

struct PinnedAllocator final : c10::Allocator {
  DataPtr allocate(size_t size_bytes) override {
    void *address = nullptr;
    call(table->host_take, size_bytes, &address);
    return {address, address, host_give, Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return host_give; }
  void copy_data(void *to, const void *from, size_t size_bytes) const override {
    default_copy_data(to, from, size_bytes);
  }
};

// --- Random numbers ----------------------------------------------------------

// Random operators run on the CPU, with the generator that this one holds.
struct Generator final : c10::GeneratorImpl {
  Generator(int32_t index, at::Generator on_cpu)
      : c10::GeneratorImpl(device_of(index), kKeys), cpu(std::move(on_cpu)) {}

  void set_current_seed(uint64_t seed) override {
    impl().set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override { impl().set_offset(offset); }
  uint64_t get_offset() const override { return impl().get_offset(); }
  uint64_t current_seed() const override { return impl().current_seed(); }
  uint64_t seed() override { return impl().seed(); }
  void set_state(const c10::TensorImpl &state) override {
    impl().set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return impl().get_state();
  }

 private:
  c10::GeneratorImpl &impl() const { return *cpu.unsafeGetGeneratorImpl(); }
  Generator *clone_impl() const override {
    return new Generator(device().index(), cpu.clone());
  }
  at::Generator cpu;
};

// --- Hooks -------------------------------------------------------------------

struct Hooks final : at::PrivateUse1HooksInterface {
  Hooks() {
    for (int32_t i = 0; i < table->device_count; ++i)
      defaults.push_back(at::make_generator<Generator>(
          i, at::detail::getDefaultCPUGenerator()));
  }

  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return Guard().deviceCount(); }
  DeviceIndex getCurrentDevice() const override {
    return Guard().getDevice().index();
  }
  void setCurrentDevice(DeviceIndex index) const override {
    Guard().setDevice(device_of(index));
  }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    return Guard().exchangeDevice(device_of(index)).index();
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    return exchangeDevice(index);
  }

  const at::Generator &getDefaultGenerator(DeviceIndex index) const override {
    return defaults.at(static_cast<size_t>(index_of(Device(kType, index))));
  }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return at::make_generator<Generator>(index_of(Device(kType, index)),
                                         at::detail::createCPUGenerator());
  }

  bool isPinnedPtr(const void *data) const override {
    return table->host_has(data) != 0;
  }
  c10::Allocator *getPinnedMemoryAllocator() const override {
    static PinnedAllocator allocator;
    return &allocator;
  }
  Device getDeviceFromPtr(void *data) const override {
    const int32_t index = table->memory_device(data);
    TORCH_CHECK(index >= 0, "no tensor of a device has the address ", data);
    return device_of(index);
  }
  void resizePrivateUse1Bytes(const c10::Storage &storage,
                              size_t size_bytes) const override {
    const int32_t index = index_of(storage.device());
    DataPtr made = memory_take(index, size_bytes);
    call(table->memory_copy, index, made.get(), storage.data(),
         std::min(size_bytes, storage.nbytes()));
    storage.set_data_ptr_noswap(std::move(made));
    storage.set_nbytes(size_bytes);
  }

 private:
  std::vector<at::Generator> defaults;
};

// --- Metadata: named flags of a tensor, which torch.save keeps ---------------

using Flags = std::unordered_map<std::string, bool>;

struct Metadata final : c10::BackendMeta {
  explicit Metadata(const Flags &given) : flags(given) {}
  Flags flags;
};

void metadata_get(const at::Tensor &tensor, Flags &out) {
  const auto *found = dynamic_cast<const Metadata *>(
      tensor.unsafeGetTensorImpl()->get_backend_meta());
  if (found != nullptr) out = found->flags;
}

void metadata_set(const at::Tensor &tensor, Flags &flags) {
  tensor.unsafeGetTensorImpl()->set_backend_meta(
      c10::make_intrusive<Metadata>(flags));
}

// --- The profiler ------------------------------------------------------------

using Event = torch::profiler::impl::ProfilerVoidEventStub;

struct Profiler final : torch::profiler::impl::ProfilerStubs {
  bool enabled() const override { return true; }
  void record(DeviceIndex *device, Event *event,
              int64_t *cpu_ns) const override {
    const int32_t index = table->device_get();
    void *made = nullptr;
    call(table->event_record, &made, index, table->stream_current(index));
    *event = Event(made, [](void *e) { table->event_destroy(e); });
    if (device != nullptr) *device = static_cast<DeviceIndex>(index);
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
  }
  float elapsed(const Event *begin, const Event *end) const override {
    int64_t elapsed_ns = 0;
    call(table->event_elapsed, begin->get(), end->get(), &elapsed_ns);
    return static_cast<float>(elapsed_ns) / 1e3f;  // in microseconds
  }
  void mark(const char *) const override {}
  void rangePush(const char *) const override {}
  void rangePop() const override {}
  void onEachDevice(std::function<void(int)> visit) const override {
    for (int32_t i = 0; i < table->device_count; ++i) visit(i);
  }
  void synchronize() const override { call(table->device_synchronize, -1); }
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void *opgraft_registry_tensor(og_tensor *like, int32_t dtype,
                                       size_t bytes, opgraft_error *error) {
  const auto rank = static_cast<size_t>(like->ndim);
  void *owner = nullptr;
  if (table->memory_take(like->device.id, bytes, &like->data, &owner, error))
    return nullptr;
  DataPtr data(like->data, owner, memory_give, device_of(like->device.id));
  try {
    at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage({}, bytes, std::move(data), c10::GetAllocator(kType),
                     true),
        kKeys, c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(dtype)));
    made.unsafeGetTensorImpl()->set_sizes_and_strides({like->shape, rank},
                                                      {like->strides, rank});
    return new at::Tensor(std::move(made));
  } catch (const std::exception &) {
    *error = {OG_MEMORY, -1, -1, 0, "", "", "not enough memory for a tensor"};
  }
  return nullptr;
}

EXPORTED const char *opgraft_registry_enter(const registry_table *filled) {
  static std::string said;
  if (filled->struct_size != sizeof *filled)
    return "it was compiled for another version of opgraft";
  table = filled;
  try {  // torch keeps what it is given for ever
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    c10::SetAllocator(kType, new Allocator);
    c10::impl::DeviceGuardImplRegistrar(kType, new Guard);
    torch::profiler::impl::registerPrivateUse1Methods(new Profiler);
    torch::jit::TensorBackendMetaRegistry(kType, metadata_get, metadata_set);
  } catch (const std::exception &error) {
    return (said = error.what()).c_str();
  }
  return nullptr;
}
