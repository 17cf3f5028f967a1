// Each rule against libtorch's optimizer: the same bits after every step, for a dense tensor and
// for rows of which some have no gradient.
//
// Two things of libtorch's CPU kernels can't be the same on every machine, and the test takes them
// away: the kernels for wide vectors use fused multiply-add, which rounds once less, so it is told
// to take those without; and its square root is MKL's, which in every fifth or sixth case is not
// the nearest float, so it gets one that is.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ATen/ops/from_blob.h"
#include "optim/rules/rule.h"
#include "rpc/base/rng.h"
#include "tests/support/matchers.h"
#include "torch/optim/adagrad.h"
#include "torch/optim/adam.h"
#include "torch/optim/adamw.h"
#include "torch/optim/rmsprop.h"
#include "torch/optim/sgd.h"

namespace {
int64_t roots = 0;
}  // namespace

// Called by libtorch instead of MKL's.
extern "C" __attribute__((visibility("default"))) void vmsSqrt(int n, const float* x, float* y,
                                                               int64_t mode);
extern "C" void vmsSqrt(int n, const float* x, float* y, int64_t) {
  for (int i = 0; i < n; ++i) y[i] = std::sqrt(x[i]);
  roots += n;
}

namespace gradwire::optim {
namespace {

using ::gradwire::testing::IsOk;
using Tensors = std::vector<at::Tensor>;
using Optimizer = std::unique_ptr<torch::optim::Optimizer>;

// Read when the first operation runs.
const int no_fused_operations = ::setenv("ATEN_CPU_CAPABILITY", "default", 1);

struct TwinOf {
  const Tensors& parameters;

  Optimizer operator()(const Sgd& o) const {
    return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(o.lr)
                                                               .momentum(o.momentum)
                                                               .dampening(o.dampening)
                                                               .weight_decay(o.weight_decay)
                                                               .nesterov(o.nesterov));
  }
  Optimizer operator()(const Adagrad& o) const {
    return std::make_unique<torch::optim::Adagrad>(
        parameters, torch::optim::AdagradOptions(o.lr)
                        .weight_decay(o.weight_decay)
                        .initial_accumulator_value(o.initial_accumulator)
                        .eps(o.eps));
  }
  Optimizer operator()(const Adam& o) const {
    return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(o.lr)
                                                                .betas({o.beta1, o.beta2})
                                                                .eps(o.eps)
                                                                .weight_decay(o.weight_decay));
  }
  Optimizer operator()(const AdamW& o) const {
    return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(o.lr)
                                                                 .betas({o.beta1, o.beta2})
                                                                 .eps(o.eps)
                                                                 .weight_decay(o.weight_decay));
  }
  Optimizer operator()(const RmsProp& o) const {
    return std::make_unique<torch::optim::RMSprop>(parameters, torch::optim::RMSpropOptions(o.lr)
                                                                   .alpha(o.alpha)
                                                                   .eps(o.eps)
                                                                   .weight_decay(o.weight_decay)
                                                                   .momentum(o.momentum)
                                                                   .centered(o.centered));
  }
  // These have no twin.
  Optimizer operator()(const RowwiseAdagrad&) const { return nullptr; }
  Optimizer operator()(const Ftrl&) const { return nullptr; }
};

// The learning rate of today, as a schedule sets it.
void SetLr(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

struct Named {
  const char* name;
  RuleOptions options;
};

void PrintTo(const Named& named, std::ostream* out) { *out << named.name; }

class TorchTest : public ::testing::TestWithParam<Named> {
 protected:
  void SetUp() override {
    roots = 0;
    const absl::StatusOr<Rule> rule = Rule::Create(GetParam().options);
    ASSERT_THAT(rule, IsOk());
    rule_ = *rule;
  }

  float Random(double scale) { return static_cast<float>(scale * (2 * rng_.Uniform() - 1)); }

  // Gradients of many sizes, and some that are zero.
  std::vector<float> RandomGradient(size_t n) {
    std::vector<float> gradient(n);
    for (float& g : gradient) {
      if (!rng_.Chance(0.1)) g = Random(std::exp(8 * rng_.Uniform() - 6));
    }
    return gradient;
  }

  // Steps both `steps` times over `count` tensors of `n`; each has a gradient with `chance`.
  void ExpectSameBits(size_t count, size_t n, double chance) {
    std::vector<std::vector<float>> weights(count, std::vector<float>(n)), slots(count);
    Tensors parameters;
    for (size_t t = 0; t < count; ++t) {
      for (float& w : weights[t]) w = Random(1);
      slots[t].resize(rule_.SlotCount(n));
      rule_.InitSlots(slots[t], n);
      parameters.push_back(at::from_blob(weights[t].data(), {static_cast<int64_t>(n)}).clone());
    }
    const Optimizer twin = std::visit(TwinOf{parameters}, rule_.options());
    ASSERT_NE(twin, nullptr);
    size_t updates = 0;
    for (int step = 0; step < 50; ++step) {
      const double lr = step < 30 ? rule_.lr() : rule_.lr() / 3;
      SetLr(*twin, lr);
      for (size_t t = 0; t < count; ++t) {
        parameters[t].mutable_grad() = at::Tensor();
        if (!rng_.Chance(chance)) continue;
        std::vector<float> gradient = RandomGradient(n);
        parameters[t].mutable_grad() =
            at::from_blob(gradient.data(), {static_cast<int64_t>(n)}).clone();
        rule_.Apply(lr, weights[t], slots[t], gradient);
        ++updates;
      }
      twin->step();
      for (size_t t = 0; t < count; ++t) {
        const float* theirs = static_cast<const float*>(parameters[t].const_data_ptr());
        for (size_t i = 0; i < n; ++i) {
          ASSERT_EQ(std::bit_cast<uint32_t>(weights[t][i]), std::bit_cast<uint32_t>(theirs[i]))
              << "tensor " << t << " element " << i << " after step " << step << ": "
              << weights[t][i] << " against " << theirs[i];
        }
      }
    }
    EXPECT_GT(updates, 40U);
    // That the square root was ours, else the comparison says something about MKL.
    EXPECT_EQ(roots > 0, !std::holds_alternative<Sgd>(rule_.options()));
  }

  Rule rule_;
  SeededRng rng_{20261201};
};

TEST_P(TorchTest, DenseTensor) { ExpectSameBits(1, 1000, 1); }

TEST_P(TorchTest, RowsOfWhichHalfHaveAGradient) { ExpectSameBits(20, 16, 0.5); }

INSTANTIATE_TEST_SUITE_P(
    Rules, TorchTest,
    ::testing::Values(
        Named{"Sgd", Sgd{.lr = 0.1}}, Named{"SgdDecay", Sgd{.lr = 0.1, .weight_decay = 0.01}},
        Named{"SgdMomentum", Sgd{.lr = 0.1, .momentum = 0.9}},
        Named{"SgdDampening",
              Sgd{.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01}},
        Named{"SgdNesterov", Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}},
        Named{"SgdNesterovDecay",
              Sgd{.lr = 0.1, .momentum = 0.8, .weight_decay = 0.1, .nesterov = true}},
        Named{"Adagrad", Adagrad{.lr = 0.1}},
        Named{"AdagradDecayFromATenth",
              Adagrad{.lr = 0.1, .weight_decay = 0.01, .initial_accumulator = 0.1}},
        Named{"AdagradWithoutEpsilon", Adagrad{.lr = 0.1, .initial_accumulator = 0.1, .eps = 0}},
        Named{"Adam", Adam{}},
        Named{"AdamDecay",
              Adam{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1}},
        Named{"AdamWithoutMomentum", Adam{.lr = 0.01, .beta1 = 0}}, Named{"AdamW", AdamW{}},
        Named{"AdamWDecay", AdamW{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.99, .weight_decay = 0.3}},
        Named{"AdamWWithoutDecay", AdamW{.weight_decay = 0}}, Named{"RmsProp", RmsProp{}},
        Named{"RmsPropDecay", RmsProp{.alpha = 0.9, .weight_decay = 0.01}},
        Named{"RmsPropMomentum", RmsProp{.momentum = 0.9}},
        Named{"RmsPropCentered", RmsProp{.centered = true}},
        Named{"RmsPropAll", RmsProp{.lr = 1e-3,
                                    .alpha = 0.95,
                                    .weight_decay = 0.1,
                                    .momentum = 0.5,
                                    .centered = true}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gradwire::optim
