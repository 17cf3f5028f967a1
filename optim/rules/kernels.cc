#include "optim/rules/kernels.h"

#include "optim/rules/steps.h"

// The arrays of a row don't overlap, so that no loop need look whether they do. (clang looks; its
// word for this is an error where the sanitizers prevent vectors.)
#if defined(__clang__)
#define GW_NO_OVERLAP
#else
#define GW_NO_OVERLAP _Pragma("GCC ivdep")
#endif

namespace gradwire::optim {
namespace {

template <class Step>
GW_STEP void Loop(const RuleOptions& options, double lr, float* __restrict w, float* __restrict s,
                  const float* __restrict g, size_t n) {
  const auto& own = *std::get_if<typename Step::Options>(&options);
  const Step step(own, StepInput{lr, s + Step::kSlots * n, g, n});
  if constexpr (requires { step.Skips(); }) {
    if (step.Skips()) return;
  }
  GW_NO_OVERLAP
  for (size_t i = 0; i < n; ++i) {
    if constexpr (Step::kSlots == 0) step(w[i], g[i]);
    if constexpr (Step::kSlots == 1) step(w[i], g[i], s[i]);
    if constexpr (Step::kSlots == 2) step(w[i], g[i], s[i], s[n + i]);
    if constexpr (Step::kSlots == 3) step(w[i], g[i], s[i], s[n + i], s[2 * n + i]);
  }
}

template <class Step>
void Baseline(const RuleOptions& options, double lr, float* weights, float* slots,
              const float* gradient, size_t n) {
  Loop<Step>(options, lr, weights, slots, gradient, n);
}

#if defined(__x86_64__)
template <class Step>
__attribute__((target("avx2"))) void Avx2(const RuleOptions& options, double lr, float* weights,
                                          float* slots, const float* gradient, size_t n) {
  Loop<Step>(options, lr, weights, slots, gradient, n);
}
#endif

template <class Step>
ApplyFn Compiled(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx2) return Avx2<Step>;
#endif
  (void)isa;
  return Baseline<Step>;
}

template <bool kDecay>
ApplyFn Find(const Sgd& o, Isa isa) {
  if (o.momentum == 0) return Compiled<SgdStep<kDecay>>(isa);
  return o.nesterov ? Compiled<MomentumStep<kDecay, true>>(isa)
                    : Compiled<MomentumStep<kDecay, false>>(isa);
}

template <bool kDecay>
ApplyFn Find(const Adagrad&, Isa isa) {
  return Compiled<AdagradStep<kDecay>>(isa);
}

template <bool kDecay>
ApplyFn Find(const Adam&, Isa isa) {
  return Compiled<AdamStep<Adam, kDecay>>(isa);
}

template <bool kDecay>
ApplyFn Find(const AdamW&, Isa isa) {
  return Compiled<AdamStep<AdamW, kDecay>>(isa);
}

template <bool kDecay>
ApplyFn Find(const RmsProp& o, Isa isa) {
  if (o.momentum == 0) {
    return o.centered ? Compiled<RmsPropStep<kDecay, true>>(isa)
                      : Compiled<RmsPropStep<kDecay, false>>(isa);
  }
  return o.centered ? Compiled<RmsPropMomentumStep<kDecay, true>>(isa)
                    : Compiled<RmsPropMomentumStep<kDecay, false>>(isa);
}

struct Finder {
  Isa isa;
  template <class Options>
  ApplyFn operator()(const Options& o) const {
    return o.weight_decay == 0 ? Find<false>(o, isa) : Find<true>(o, isa);
  }
  ApplyFn operator()(const RowwiseAdagrad&) const { return Compiled<RowwiseAdagradStep>(isa); }
  ApplyFn operator()(const Ftrl&) const { return Compiled<FtrlStep>(isa); }
};

}  // namespace

Isa BestIsa() {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

ApplyFn FindKernel(const RuleOptions& options, Isa isa) { return std::visit(Finder{isa}, options); }

}  // namespace gradwire::optim
