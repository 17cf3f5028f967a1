// What a small item costs to write and to parse, alone in a frame and among 64.
#include <benchmark/benchmark.h>

#include "rpc/agent/frame.h"

namespace gradwire::rpc {
namespace {

// A request with 40 bytes of arguments, as most small calls are.
void WriteRequests(FrameWriter& writer, int64_t count, const Buffer& head, BufferList& out) {
  FrameHead frame;
  frame.first_item = 1'000'000;
  frame.seen = 999'000;
  frame.finished_below = 999'500;
  frame.call_limit = 1'000'256;
  frame.nested_call_limit = 64;
  writer.Begin(frame);
  ItemHead item;
  item.kind = static_cast<uint32_t>(ItemKind::kRequest);
  item.function = 7;
  item.timeout_us = 60'000'000;
  item.head_bytes = head.size();
  for (int64_t i = 0; i < count; ++i) {
    item.call = 1'000'000 + static_cast<uint64_t>(i);
    writer.AddItem(item, head, {});
  }
  writer.Finish(out);
}

void Write(benchmark::State& state) {
  FrameWriter writer;
  const Buffer head = Buffer::FromString(std::string(40, 'x'));
  for (auto _ : state) {
    BufferList out;
    WriteRequests(writer, state.range(0), head, out);
    benchmark::DoNotOptimize(out);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Write)->Arg(1)->Arg(64);

void Parse(benchmark::State& state) {
  FrameWriter writer;
  BufferList out;
  WriteRequests(writer, state.range(0), Buffer::FromString(std::string(40, 'x')), out);
  const Buffer message = out.Flatten();
  FrameView view;
  for (auto _ : state) {
    if (absl::Status parsed = ParseFrame(message, view); !parsed.ok()) {
      state.SkipWithError(parsed.ToString().c_str());
    }
    benchmark::DoNotOptimize(view);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Parse)->Arg(1)->Arg(64);

}  // namespace
}  // namespace gradwire::rpc
