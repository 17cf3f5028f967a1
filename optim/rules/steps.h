// One update of one weight, for each rule: what kernels.cc loops over.
//
// A step is built once a row or block from the options, the learning rate and the scalar slots
// (which it advances), and then called for every weight with its gradient and its element slots.
// Layout of the slots: kSlots arrays [n], then the scalars. Operations and their order are those of
// libtorch 2.11's optimizers (torch/csrc/api/src/optim/*.cpp), whose tensor operations they spell
// out: add(x, a) is x + a * y, addcmul(x, y, a) + (a * x) * y, addcdiv(x, y, a) + (a * x) / y, with
// scalars rounded to float from double. Internal to optim/rules.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "optim/rules/rule.h"

// Part of the loop it stands in, whatever the optimization level: that loop has its own ISA.
#define GW_STEP inline __attribute__((always_inline))

namespace gradwire::optim {

// What a step is built from. scalars: behind the element slots.
struct StepInput {
  double lr;
  float* scalars;
  const float* gradient;
  size_t n;
};

// Counts a step in float; stands still at 2^24, where every correction has long been 1.
GW_STEP double CountStep(float* count) {
  *count = std::min(*count + 1.0F, 16777216.0F);
  return *count;
}

// 1 - beta^count, beta in [0, 1), by squaring in one order: pow() differs between processors.
GW_STEP double BiasCorrection(double beta, double count) {
  // beta^count <= e^-(count (1 - beta)) < 2^-54 is lost in 1 minus it.
  if (count * (1 - beta) > 37.5) return 1;
  double power = 1;
  for (auto bits = static_cast<unsigned>(count); bits != 0; bits >>= 1, beta *= beta) {
    power *= (bits & 1U) != 0 ? beta : 1.0;  // a choice, not a branch that is guessed wrong
  }
  return 1 - power;
}

// The gradient with L2 regularization.
template <bool kDecay>
GW_STEP float Decayed(float gradient, float weight, float decay) {
  if constexpr (kDecay) return gradient + decay * weight;
  return gradient;
}

// SGD: torch::optim::SGD (sgd.cpp); momentum after Sutskever et al., "On the importance of
// initialization and momentum in deep learning", ICML 2013.
template <bool kDecay>
struct SgdStep {
  using Options = Sgd;
  static constexpr size_t kSlots = 0;
  float lr, decay;

  GW_STEP SgdStep(const Sgd& o, const StepInput& in)
      : lr(static_cast<float>(in.lr)), decay(static_cast<float>(o.weight_decay)) {}
  GW_STEP void operator()(float& w, float g) const { w -= lr * Decayed<kDecay>(g, w, decay); }
};

// The buffer starts as the first gradient itself, which dampening doesn't touch: with dampening, a
// scalar says whether there was one.
template <bool kDecay, bool kNesterov>
struct MomentumStep {
  using Options = Sgd;
  static constexpr size_t kSlots = 1;
  float lr, decay, momentum, fresh;

  GW_STEP MomentumStep(const Sgd& o, const StepInput& in)
      : lr(static_cast<float>(in.lr)),
        decay(static_cast<float>(o.weight_decay)),
        momentum(static_cast<float>(o.momentum)),
        fresh(static_cast<float>(1 - o.dampening)) {
    if (o.dampening != 0 && *in.scalars == 0) {
      fresh = 1;
      *in.scalars = 1;
    }
  }
  GW_STEP void operator()(float& w, float g, float& buffer) const {
    g = Decayed<kDecay>(g, w, decay);
    buffer = buffer * momentum + fresh * g;
    w -= lr * (kNesterov ? g + momentum * buffer : buffer);
  }
};

// Adagrad: Duchi, Hazan, Singer 2011; torch::optim::Adagrad (adagrad.cpp).
template <bool kDecay>
struct AdagradStep {
  using Options = Adagrad;
  static constexpr size_t kSlots = 1;
  float lr, decay, eps;

  GW_STEP AdagradStep(const Adagrad& o, const StepInput& in)
      : lr(static_cast<float>(in.lr)),
        decay(static_cast<float>(o.weight_decay)),
        eps(static_cast<float>(o.eps)) {}
  GW_STEP void operator()(float& w, float g, float& sum) const {
    g = Decayed<kDecay>(g, w, decay);
    sum += g * g;
    w -= lr * g / (std::sqrt(sum) + eps);
  }
};

// Lane k sums elements k, k + 8, …; then halves are added to halves: one order, at every width.
GW_STEP float SumOfSquares(const float* x, size_t n) {
  constexpr size_t kLanes = 8;
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) lanes[k] += x[i + k] * x[i + k];
  }
  for (size_t k = 0; i < n; ++i, ++k) lanes[k] += x[i] * x[i];
  for (size_t half = kLanes / 2; half != 0; half /= 2) {
    for (size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

// Row-wise Adagrad: Mudigere et al., "Software-hardware co-design for fast and scalable training of
// deep learning recommendation models", ISCA 2022, section 4.1.4; what FBGEMM's
// EXACT_ROWWISE_ADAGRAD does: the accumulator takes the mean of the row's squares.
struct RowwiseAdagradStep {
  using Options = RowwiseAdagrad;
  static constexpr size_t kSlots = 0;
  float scale;

  GW_STEP RowwiseAdagradStep(const RowwiseAdagrad& o, const StepInput& in) {
    float& sum = *in.scalars;
    sum += SumOfSquares(in.gradient, in.n) / static_cast<float>(std::max<size_t>(in.n, 1));
    const float denominator = std::sqrt(sum) + static_cast<float>(o.eps);
    // No gradient was ever anything but zero, and there is no epsilon: nothing to do.
    scale = denominator == 0 ? 0 : static_cast<float>(in.lr) / denominator;
  }
  GW_STEP void operator()(float& w, float g) const { w -= scale * g; }
};

// Adam: Kingma, Ba 2015, algorithm 1, and AdamW: Loshchilov, Hutter 2019, algorithm 2;
// torch::optim::Adam (adam.cpp), AdamW (adamw.cpp). One scalar: the step count.
template <class AdamOptions, bool kDecay>
struct AdamStep {
  using Options = AdamOptions;
  static constexpr size_t kSlots = 2;
  static constexpr bool kDecoupled = std::is_same_v<AdamOptions, AdamW>;
  float step_size, decay, beta1, fresh1, beta2, fresh2, root, eps;

  GW_STEP AdamStep(const AdamOptions& o, const StepInput& in) {
    const double count = CountStep(in.scalars);
    step_size = static_cast<float>(in.lr / BiasCorrection(o.beta1, count));
    root = static_cast<float>(std::sqrt(BiasCorrection(o.beta2, count)));
    decay = static_cast<float>(kDecoupled ? 1 - in.lr * o.weight_decay : o.weight_decay);
    beta1 = static_cast<float>(o.beta1);
    fresh1 = static_cast<float>(1 - o.beta1);
    beta2 = static_cast<float>(o.beta2);
    fresh2 = static_cast<float>(1 - o.beta2);
    eps = static_cast<float>(o.eps);
  }
  GW_STEP void operator()(float& w, float g, float& mean, float& square) const {
    if constexpr (kDecoupled) {
      if constexpr (kDecay) w *= decay;
    } else {
      g = Decayed<kDecay>(g, w, decay);
    }
    mean = mean * beta1 + fresh1 * g;
    square = square * beta2 + fresh2 * g * g;
    w -= step_size * mean / (std::sqrt(square) / root + eps);
  }
};

// RMSprop: Hinton, lecture 6.5 of "Neural networks for machine learning", 2012; centered: Graves,
// "Generating sequences with recurrent neural networks", 2013, eq. 38-41; torch::optim::RMSprop
// (rmsprop.cpp). Slots: mean of squares, then where there is one the mean, then the momentum's.
template <bool kDecay, bool kCentered>
struct RmsPropStep {
  using Options = RmsProp;
  static constexpr size_t kSlots = kCentered ? 2 : 1;
  float lr, decay, alpha, fresh, eps;

  GW_STEP RmsPropStep(const RmsProp& o, const StepInput& in)
      : lr(static_cast<float>(in.lr)),
        decay(static_cast<float>(o.weight_decay)),
        alpha(static_cast<float>(o.alpha)),
        fresh(static_cast<float>(1 - o.alpha)),
        eps(static_cast<float>(o.eps)) {}

  GW_STEP float Denominator(float g, float& square) const {
    square = square * alpha + fresh * g * g;
    return std::sqrt(square) + eps;
  }
  // Rounding may leave a variance below zero, where libtorch's root is NaN.
  GW_STEP float Denominator(float g, float& square, float& mean) const {
    square = square * alpha + fresh * g * g;
    mean = mean * alpha + fresh * g;
    const float variance = square - mean * mean;
    return std::sqrt(variance < 0 ? 0 : variance) + eps;
  }
  template <class... Slots>
  GW_STEP void operator()(float& w, float g, Slots&... slots) const {
    g = Decayed<kDecay>(g, w, decay);
    w -= lr * g / Denominator(g, slots...);
  }
};

template <bool kDecay, bool kCentered>
struct RmsPropMomentumStep : RmsPropStep<kDecay, kCentered> {
  using Base = RmsPropStep<kDecay, kCentered>;
  static constexpr size_t kSlots = Base::kSlots + 1;
  float momentum;

  GW_STEP RmsPropMomentumStep(const RmsProp& o, const StepInput& in)
      : Base(o, in), momentum(static_cast<float>(o.momentum)) {}
  GW_STEP void Move(float& w, float& buffer, float g, float denominator) const {
    buffer = buffer * momentum + g / denominator;
    w -= this->lr * buffer;
  }
  GW_STEP void operator()(float& w, float g, float& square, float& buffer) const {
    g = Decayed<kDecay>(g, w, this->decay);
    Move(w, buffer, g, this->Denominator(g, square));
  }
  GW_STEP void operator()(float& w, float g, float& square, float& mean, float& buffer) const {
    g = Decayed<kDecay>(g, w, this->decay);
    Move(w, buffer, g, this->Denominator(g, square, mean));
  }
};

// FTRL-Proximal: McMahan et al. 2013, algorithm 1, whose weight, a function of z and n, is computed
// at once instead of when it is next needed. Slots: z, n. Its state depends on 1 / alpha, so that a
// rate of zero leaves all as it is.
struct FtrlStep {
  using Options = Ftrl;
  static constexpr size_t kSlots = 2;
  float alpha, beta, l1, l2;

  GW_STEP FtrlStep(const Ftrl& o, const StepInput& in)
      : alpha(static_cast<float>(in.lr)),
        beta(static_cast<float>(o.beta)),
        l1(static_cast<float>(o.l1)),
        l2(static_cast<float>(o.l2)) {}
  GW_STEP bool Skips() const { return !(alpha > 0); }
  GW_STEP void operator()(float& w, float g, float& z, float& n) const {
    const float sum = n + g * g;
    const float root = std::sqrt(sum);
    const float sigma = (root - std::sqrt(n)) / alpha;
    z = z + (g - sigma * w);
    n = sum;
    const float size = std::fabs(z) - l1;
    const float moved = -std::copysign(size, z) / ((beta + root) / alpha + l2);
    w = size <= 0 ? 0 : moved;
  }
};

}  // namespace gradwire::optim
