#include "rpc/base/fault.h"

#include <signal.h>

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/log.h"
#include "rpc/base/mutex.h"
#include "rpc/base/status.h"

namespace gradwire {
namespace fault_internal {

std::atomic<bool> plan_active{false};

struct ActiveRule {
  uint64_t first_pass = 1;
  uint64_t fires_left = ~uint64_t{0};
  uint64_t passes = 0;
  std::function<absl::Status()> action;
};

struct Point {
  uint64_t passed = 0;
  uint64_t fired = 0;
  std::vector<ActiveRule> rules;
};

struct PlanState {
  Mutex mu;
  absl::flat_hash_map<std::string, Point> points GW_GUARDED_BY(mu);
};

namespace {

struct Active {
  Mutex mu;
  std::shared_ptr<PlanState> plan GW_GUARDED_BY(mu);
};

Active& TheActive() {
  static auto* const active = new Active;  // never destroyed: points are passed until the end
  return *active;
}

void Die() { raise(SIGKILL); }

}  // namespace

absl::Status Hit(absl::string_view name) {
  std::shared_ptr<PlanState> plan;
  {
    Active& active = TheActive();
    MutexLock lock(active.mu);
    plan = active.plan;
  }
  if (plan == nullptr) return absl::OkStatus();
  std::function<absl::Status()> action;
  {
    MutexLock lock(plan->mu);
    Point& point = plan->points[name];
    ++point.passed;
    for (ActiveRule& rule : point.rules) {
      ++rule.passes;
      if (action != nullptr || rule.passes < rule.first_pass || rule.fires_left == 0) continue;
      --rule.fires_left;
      ++point.fired;
      action = rule.action;
    }
  }
  return action != nullptr ? action() : absl::OkStatus();
}

}  // namespace fault_internal

using fault_internal::ActiveRule;
using fault_internal::PlanState;

FaultPlan::Rule::Rule(std::shared_ptr<PlanState> plan, absl::string_view point)
    : plan_(std::move(plan)), point_(point) {}

FaultPlan::Rule& FaultPlan::Rule::Nth(uint64_t n) {
  nth_ = n;
  return *this;
}

FaultPlan::Rule& FaultPlan::Rule::Times(uint64_t count) {
  times_ = count;
  return *this;
}

void FaultPlan::Rule::Fail(absl::Status status) {
  GW_CHECK(!status.ok());
  Call([status = std::move(status)] { return status; });
}

void FaultPlan::Rule::Kill() {
  Call([] {
    fault_internal::Die();
    return absl::OkStatus();
  });
}

void FaultPlan::Rule::Call(std::function<absl::Status()> fn) {
  ActiveRule rule;
  rule.first_pass = nth_.value_or(1);
  rule.fires_left = times_.value_or(nth_.has_value() ? 1 : ~uint64_t{0});
  rule.action = std::move(fn);
  MutexLock lock(plan_->mu);
  plan_->points[point_].rules.push_back(std::move(rule));
}

FaultPlan::FaultPlan() : state_(std::make_shared<PlanState>()) {
  auto& active = fault_internal::TheActive();
  MutexLock lock(active.mu);
  GW_CHECK(active.plan == nullptr);
  active.plan = state_;
  fault_internal::plan_active.store(true, std::memory_order_relaxed);
}

FaultPlan::~FaultPlan() {
  auto& active = fault_internal::TheActive();
  MutexLock lock(active.mu);
  active.plan = nullptr;
  fault_internal::plan_active.store(false, std::memory_order_relaxed);
}

FaultPlan::Rule FaultPlan::At(absl::string_view point) { return Rule(state_, point); }

namespace {

struct TextRule {
  std::string point;
  std::optional<uint64_t> nth;
  std::optional<absl::StatusCode> fail;  // absent: kill
};

std::optional<absl::StatusCode> ParseCode(absl::string_view name) {
  for (int code = 1; code <= 16; ++code) {
    const auto candidate = static_cast<absl::StatusCode>(code);
    if (absl::StatusCodeToString(candidate) == name) return candidate;
  }
  return std::nullopt;
}

absl::StatusOr<TextRule> ParseRule(absl::string_view text) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "fault rule \"", EscapedString(text), "\": ", why,
        "; expected point[@n]=kill or point[@n]=fail[:CODE], for example push.apply@2=kill"));
  };
  const std::pair<absl::string_view, absl::string_view> sides =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  const std::pair<absl::string_view, absl::string_view> place =
      absl::StrSplit(sides.first, absl::MaxSplits('@', 1));
  TextRule rule;
  rule.point = std::string(place.first);
  if (rule.point.empty()) return bad("no point is named");
  if (place.first.size() != sides.first.size()) {
    uint64_t n = 0;
    if (!absl::SimpleAtoi(place.second, &n) || n == 0) return bad("n is no number from 1 on");
    rule.nth = n;
  }
  if (sides.second == "kill") return rule;
  const std::pair<absl::string_view, absl::string_view> action =
      absl::StrSplit(sides.second, absl::MaxSplits(':', 1));
  if (action.first != "fail") return bad("the action is neither kill nor fail");
  rule.fail = absl::StatusCode::kUnavailable;
  if (action.first.size() != sides.second.size()) {
    rule.fail = ParseCode(action.second);
    if (!rule.fail) return bad("CODE is no status code in capitals");
  }
  return rule;
}

}  // namespace

absl::Status FaultPlan::AddFromText(absl::string_view text) {
  std::vector<TextRule> rules;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    GW_ASSIGN_OR_RETURN(TextRule rule, ParseRule(part));
    rules.push_back(std::move(rule));
  }
  for (const TextRule& parsed : rules) {
    Rule rule = At(parsed.point);
    if (parsed.nth) rule.Nth(*parsed.nth);
    if (parsed.fail) {
      rule.Fail(absl::Status(*parsed.fail, absl::StrCat("injected at ", parsed.point)));
    } else {
      rule.Kill();
    }
  }
  return absl::OkStatus();
}

uint64_t FaultPlan::fired_count(absl::string_view point) const {
  MutexLock lock(state_->mu);
  const auto found = state_->points.find(point);
  return found == state_->points.end() ? 0 : found->second.fired;
}

uint64_t FaultPlan::passed_count(absl::string_view point) const {
  MutexLock lock(state_->mu);
  const auto found = state_->points.find(point);
  return found == state_->points.end() ? 0 : found->second.passed;
}

}  // namespace gradwire
