// What counting costs on a hot path, and a page of 2000 series.
#include "rpc/base/metrics.h"

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"

namespace gradwire {
namespace {

void BM_CounterAdd(benchmark::State& state) {
  static Counter counter;
  for (auto _ : state) counter.Add();
}
BENCHMARK(BM_CounterAdd)->Threads(1)->Threads(2);

void BM_HistogramObserve(benchmark::State& state) {
  static Histogram histogram(HistogramBuckets::Seconds());
  double value = 1e-6;
  for (auto _ : state) {
    histogram.Observe(value);
    value = value < 1 ? value * 1.1 : 1e-6;
  }
}
BENCHMARK(BM_HistogramObserve)->Threads(1)->Threads(2);

void BM_Render(benchmark::State& state) {
  MetricsRegistry metrics;
  for (int i = 0; i < 1000; ++i) {
    metrics.GetCounter("a_total", "A.", {{"peer", absl::StrCat(i)}}).Add(7);
    metrics.GetGauge("b", "B.", {{"peer", absl::StrCat(i)}}).Set(0.1);
  }
  for (auto _ : state) benchmark::DoNotOptimize(metrics.Render());
}
BENCHMARK(BM_Render);

}  // namespace
}  // namespace gradwire
