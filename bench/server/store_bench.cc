// The row store against a map of vectors and against the limit of the machine: 4 M rows of 16
// weights with Adagrad's 16 sums, batches of 1 000 distinct ids, uniform, one thread.
//
//   map    std::unordered_map<int64_t, std::vector<float>>, weights and sums in one vector.
//   slab   the same 128 bytes a row, found by position, without header or index; prefetched, on 2
//   MiB
//          pages as the store's are.
//
// All three run the same kernel (optim/rules), copy rows out the same way, and see the same ids:
// random 63-bit numbers.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bench/harness.h"
#include "optim/rules/init.h"
#include "optim/rules/rule.h"
#include "rpc/base/rng.h"
#include "server/store/page_memory.h"
#include "server/store/row_store.h"
#include "server/store/virtual_shard.h"

namespace gradwire::bench {
namespace {

constexpr size_t kDim = 16;
constexpr size_t kRowFloats = 2 * kDim;
constexpr size_t kRowBytes = kRowFloats * sizeof(float);
constexpr size_t kBatch = 1000;
constexpr double kLr = 0.1;
constexpr const char* kRate = "Mrow/s";

// This thread's time on a core: what others do beside it costs cache and memory, but not turns.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "store_bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

struct Problem {
  optim::Rule rule = *optim::Rule::Create(optim::Adagrad{.lr = kLr, .initial_accumulator = 0.1});
  optim::Initializer init = *optim::Initializer::Create(optim::Uniform(-0.1, 0.1), 1, 1);
  std::vector<int64_t> ids;               // by row
  std::vector<std::vector<size_t>> rows;  // of each batch
  std::vector<std::vector<int64_t>> batches;
  std::vector<float> gradients = std::vector<float>(kBatch * kDim, 0.01f);
  std::vector<float> out = std::vector<float>(kBatch * kDim);

  Problem(size_t row_count, size_t batch_count) {
    for (size_t row = 0; row < row_count; ++row) {
      ids.push_back(static_cast<int64_t>(server::MixBits(row) >> 1));
    }
    SeededRng rng(5);
    for (size_t b = 0; b < batch_count; ++b) {
      std::unordered_set<size_t> distinct;
      std::vector<size_t> batch;
      std::vector<int64_t> batch_ids;
      while (batch.size() < kBatch) {
        const size_t row = rng.Below(row_count);
        if (!distinct.insert(row).second) continue;
        batch.push_back(row);
        batch_ids.push_back(ids[row]);
      }
      rows.push_back(std::move(batch));
      batches.push_back(std::move(batch_ids));
    }
  }
  double row_count() const { return static_cast<double>(ids.size()); }
  void InitRow(int64_t id, float* row) const {
    init.Fill(id, {row, kDim});
    rule.InitSlots({row + kDim, kDim}, kDim);
  }
  // Runs step(batch number) for all batches: million rows a second.
  template <class Step>
  double Rate(Step step) const {
    const double start = CpuSeconds();
    for (size_t b = 0; b < batches.size(); ++b) step(b);
    return static_cast<double>(batches.size() * kBatch) / (CpuSeconds() - start) / 1e6;
  }
};

struct Ours {
  std::unique_ptr<server::RowStore> store;
  double longest_us = 0;  // batch of the filling

  // Grown from empty.
  static Ours Filled(Problem& problem) {
    Ours ours;
    server::RowStoreOptions options{
        .dim = kDim, .rule = problem.rule, .init = problem.init, .name = "bench"};
    ours.store = *server::RowStore::Create(std::move(options));
    for (size_t at = 0; at < problem.ids.size(); at += kBatch) {
      const double start = CpuSeconds();
      Check(ours.store->Lookup({&problem.ids[at], kBatch}, true, problem.out));
      ours.longest_us = std::max(ours.longest_us, (CpuSeconds() - start) * 1e6);
    }
    return ours;
  }
  double Lookup(Problem& p) {
    return p.Rate([&](size_t b) { Check(store->Lookup(p.batches[b], false, p.out)); });
  }
  double Update(Problem& p) {
    return p.Rate([&](size_t b) { Check(store->Update(kLr, p.batches[b], p.gradients)); });
  }
};

struct Map {
  std::unordered_map<int64_t, std::vector<float>> rows;

  static Map Filled(const Problem& problem) {
    Map map;
    for (const int64_t id : problem.ids) {
      std::vector<float>& row = map.rows[id];
      row.resize(kRowFloats);
      problem.InitRow(id, row.data());
    }
    return map;
  }
  double Lookup(Problem& p) {
    return p.Rate([&](size_t b) {
      for (size_t i = 0; i < kBatch; ++i) {
        std::memcpy(&p.out[i * kDim], rows.find(p.batches[b][i])->second.data(),
                    kDim * sizeof(float));
      }
    });
  }
  double Update(Problem& p) {
    return p.Rate([&](size_t b) {
      for (size_t i = 0; i < kBatch; ++i) {
        float* const row = rows.find(p.batches[b][i])->second.data();
        p.rule.Apply(kLr, {row, kDim}, {row + kDim, kDim}, {&p.gradients[i * kDim], kDim});
      }
    });
  }
};

struct Slab {
  server::PageMemory memory;

  static Slab Filled(const Problem& problem) {
    const size_t bytes = server::RoundUp(problem.ids.size() * kRowBytes, server::kLargePageBytes);
    Slab slab{*server::PageMemory::Reserve(bytes)};
    Check(slab.memory.Commit(0, bytes, server::PageSize::kLarge));
    for (size_t row = 0; row < problem.ids.size(); ++row) {
      problem.InitRow(problem.ids[row], slab.Row(row));
    }
    return slab;
  }
  float* Row(size_t row) const { return reinterpret_cast<float*>(memory.data() + row * kRowBytes); }
  // kFar: see CompareWithSlab.
  template <bool kFar>
  __attribute__((always_inline)) void Ask(size_t row, bool whole) const {
    __builtin_prefetch(Row(row), 0, kFar ? 1 : 3);
    if (whole || kFar) __builtin_prefetch(Row(row) + kDim, 0, kFar ? 1 : 3);
  }
  template <bool kFar>
  double Lookup(Problem& p) {
    constexpr size_t kAhead = kFar ? 32 : 16;
    return p.Rate([&](size_t b) {
      const std::vector<size_t>& batch = p.rows[b];
      for (size_t i = 0; i < kBatch; ++i) {
        if (i + kAhead < kBatch) Ask<kFar>(batch[i + kAhead], false);
        std::memcpy(&p.out[i * kDim], Row(batch[i]), kDim * sizeof(float));
      }
    });
  }
  template <bool kFar>
  double Update(Problem& p) {
    constexpr size_t kAhead = kFar ? 32 : 16;
    return p.Rate([&](size_t b) {
      const std::vector<size_t>& batch = p.rows[b];
      for (size_t i = 0; i < kBatch; ++i) {
        if (i + kAhead < kBatch) Ask<kFar>(batch[i + kAhead], true);
        float* const row = Row(batch[i]);
        p.rule.Apply(kLr, {row, kDim}, {row + kDim, kDim}, {&p.gradients[i * kDim], kDim});
      }
    });
  }
};

// Of one filling: bytes a row beyond its weights and sums; what filling took.
template <class Store>
double Overhead(Problem& problem, std::optional<Store>* kept = nullptr) {
  const double before = ResidentBytes();
  Store store = Store::Filled(problem);
  const double bytes = (ResidentBytes() - before) / problem.row_count();
  if (kept != nullptr) *kept = std::move(store);
  return bytes - static_cast<double>(kRowBytes);
}

template <class Store>
double FillRate(Problem& problem) {
  const double start = CpuSeconds();
  const Store store = Store::Filled(problem);
  return problem.row_count() / (CpuSeconds() - start) / 1e6;
}

bool Wanted(const Settings& settings, const char* group) {
  return settings.only.empty() || settings.only.find(group) != std::string::npos;
}

// The goals are against a slab that is prefetched as one does, 16 rows ahead into the first-level
// cache. "far" asks as the store does, 32 ahead and not into the first level, for both halves of a
// row: the limit of this machine.
void CompareWithSlab(const Settings& settings, Problem& problem, Ours& ours) {
  Slab slab = Slab::Filled(problem);
  const auto lookup = [&] { return ours.Lookup(problem); };
  const auto update = [&] { return ours.Update(problem); };
  Compare(settings, "store.lookup.slab", kRate, lookup,
          [&] { return slab.Lookup<false>(problem); });
  Compare(settings, "store.update.slab", kRate, update,
          [&] { return slab.Update<false>(problem); });
  Compare(settings, "store.lookup.slab.far", kRate, lookup,
          [&] { return slab.Lookup<true>(problem); });
  Compare(settings, "store.update.slab.far", kRate, update,
          [&] { return slab.Update<true>(problem); });
}

void CompareWithMap(const Settings& settings, Problem& problem, Ours& ours) {
  std::optional<Map> map;
  const double overhead = Overhead(problem, &map);
  std::printf("a row of the map takes %.1f bytes beyond its %zu\n", overhead, kRowBytes);
  Compare(
      settings, "store.lookup.map", kRate, [&] { return ours.Lookup(problem); },
      [&] { return map->Lookup(problem); });
  Compare(
      settings, "store.update.map", kRate, [&] { return ours.Update(problem); },
      [&] { return map->Update(problem); });
}

void Run(const Settings& settings) {
  Problem problem(settings.quick ? 100'000 : 4'000'000, settings.quick ? 50 : 2000);
  Report(settings, "store.overhead", "bytes a row", [&] { return Overhead<Ours>(problem); });
  Report(settings, "store.create.longest", "us, a batch of 1000",
         [&] { return Ours::Filled(problem).longest_us; });
  Ours ours = Ours::Filled(problem);
  if (Wanted(settings, "slab")) CompareWithSlab(settings, problem, ours);
  // Last: what malloc keeps of the maps would count as theirs no more.
  if (Wanted(settings, "map")) CompareWithMap(settings, problem, ours);
  Compare(
      settings, "store.create.map", kRate, [&] { return FillRate<Ours>(problem); },
      [&] { return FillRate<Map>(problem); });
}

}  // namespace
}  // namespace gradwire::bench

int main(int argc, char** argv) {
  const auto settings = gradwire::bench::ParseSettings(argc, argv);
  gradwire::bench::PrintMachine();
  gradwire::bench::Run(settings);
  return 0;
}
