// What a tensor costs on its way into a payload and out of it, beside libtorch's own cost of making
// one. The hot path of small calls: one element.
#include <utility>

#include "ATen/EmptyTensor.h"
#include "ATen/ops/ones_ops.h"
#include "benchmark/benchmark.h"
#include "rpc/tensor/torch.h"

namespace gradwire::rpc {
namespace {

at::Tensor Ones(int64_t count) {
  const c10::SymInt size(count);
  return at::_ops::ones::call(c10::SymIntArrayRef(size), at::kFloat, std::nullopt, std::nullopt,
                              std::nullopt);
}

Payload Encode(const at::Tensor& tensor, Sharing sharing) {
  PayloadWriter out(sharing);
  if (!Codec<at::Tensor>::Encode(out, tensor).ok()) return {};
  return out.TakePayload();
}

// The floor: what libtorch takes for an empty tensor, without its dispatcher.
void BM_LibtorchEmpty(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(at::detail::empty_cpu({1}, at::kFloat));
  }
}
BENCHMARK(BM_LibtorchEmpty);

// The payload alone, without a tensor in it.
void BM_EncodeNothing(benchmark::State& state) {
  for (auto _ : state) {
    PayloadWriter out(Sharing::kBorrow);
    out.head().Write<int64_t>(1);
    benchmark::DoNotOptimize(out.TakePayload());
  }
}
BENCHMARK(BM_EncodeNothing);

void BM_Encode(benchmark::State& state) {
  const at::Tensor tensor = Ones(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(Encode(tensor, Sharing::kBorrow));
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}
BENCHMARK(BM_Encode)->Arg(1)->Arg(256)->Arg(4096)->Arg(16 << 20);

void BM_Decode(benchmark::State& state) {
  const Payload payload = Encode(Ones(state.range(0)), Sharing::kBorrow);
  for (auto _ : state) {
    ReceivedPayload received;
    received.head = payload.head;
    for (const Buffer& bytes : payload.attachments) received.attachments.push_back({bytes, true});
    PayloadReader in(received);
    benchmark::DoNotOptimize(Codec<at::Tensor>::Decode(in));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}
BENCHMARK(BM_Decode)->Arg(1)->Arg(256)->Arg(4096)->Arg(16 << 20);

// The same as a view, without libtorch.
void BM_DecodeView(benchmark::State& state) {
  const Payload payload = Encode(Ones(1), Sharing::kBorrow);
  for (auto _ : state) {
    ReceivedPayload received;
    received.head = payload.head;
    PayloadReader in(received);
    benchmark::DoNotOptimize(Codec<TensorView>::Decode(in));
  }
}
BENCHMARK(BM_DecodeView);

}  // namespace
}  // namespace gradwire::rpc
