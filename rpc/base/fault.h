// Fault points: named places where a test may make the code fail, die or pause.
//
//   GW_RETURN_IF_ERROR(GW_FAULT_POINT("checkpoint.before_rename"));      in the code
//   FaultPlan plan;                                                      in the test
//   plan.At("checkpoint.before_rename").Nth(2).Kill();
//   ... EXPECT_EQ(plan.fired_count("checkpoint.before_rename"), 1);      a fault must be seen to
//   fire
//
// A point without a plan costs one relaxed load. Where GW_RELEASE_BUILD is defined the points are
// compiled out (the macro is an OK status); GW_FAULT_POINTS_ENABLED says so to tests.
// Thread-safety: points may be passed by any thread; a FaultPlan's methods are thread-safe.
//                Actions run on the thread that passes the point, under no lock.
// Limits:        one plan a process at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#ifdef GW_RELEASE_BUILD
#define GW_FAULT_POINTS_ENABLED 0
#define GW_FAULT_POINT(name) (::absl::OkStatus())
#else
#define GW_FAULT_POINTS_ENABLED 1
// An absl::Status: what the plan wants to happen here, else OK. `name` is a literal.
#define GW_FAULT_POINT(name)                                               \
  (::gradwire::fault_internal::plan_active.load(std::memory_order_relaxed) \
       ? ::gradwire::fault_internal::Hit(name)                             \
       : ::absl::OkStatus())
#endif

namespace gradwire {

namespace fault_internal {
// Whether any plan exists. The plan itself is read under a mutex, in Hit().
extern std::atomic<bool> plan_active;
absl::Status Hit(absl::string_view name);
struct PlanState;
}  // namespace fault_internal

class FaultPlan {
 public:
  // One rule while it is written: takes effect with Fail, Kill or Call. With neither Nth nor Times
  // it fires on every pass. Several rules at one point are tried in the order of their making; the
  // first that fires decides.
  class Rule {
   public:
    // Fires from the n-th pass on, counted from 1 and from the making of this rule; once, unless
    // Times says otherwise.
    Rule& Nth(uint64_t n);
    // Fires at most `count` times.
    Rule& Times(uint64_t count);

    // The point gives `status`, which is not OK.
    void Fail(absl::Status status);
    // The process dies by SIGKILL, as by the out-of-memory killer: nothing is flushed.
    void Kill();
    // Runs `fn`; its status is what the point gives.
    void Call(std::function<absl::Status()> fn);

   private:
    friend class FaultPlan;
    Rule(std::shared_ptr<fault_internal::PlanState> plan, absl::string_view point);
    std::shared_ptr<fault_internal::PlanState> plan_;
    std::string point_;
    std::optional<uint64_t> nth_;
    std::optional<uint64_t> times_;
  };

  // Becomes the process's plan until destroyed. There must be none.
  FaultPlan();
  ~FaultPlan();
  FaultPlan(const FaultPlan&) = delete;
  FaultPlan& operator=(const FaultPlan&) = delete;

  Rule At(absl::string_view point);

  // Adds rules from text, for processes that a test starts: "point[@n]=kill" or
  // "point[@n]=fail[:CODE]", separated by commas; @n as Nth(n), CODE as "UNAVAILABLE" (the
  // default). INVALID_ARGUMENT names what it did not understand; then nothing was added.
  absl::Status AddFromText(absl::string_view text);

  // How often a rule fired at `point`, and how often it was passed, while this plan lived.
  uint64_t fired_count(absl::string_view point) const;
  uint64_t passed_count(absl::string_view point) const;

 private:
  std::shared_ptr<fault_internal::PlanState> state_;
};

}  // namespace gradwire
