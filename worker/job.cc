#include "worker/job.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/clock.h"
#include "rpc/base/fs.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "worker/data/safetensors.h"

namespace gradwire::worker {
namespace {

// GW_JOB runs before main, in any order: a list without a constructor.
const JobRegistry* first_job = nullptr;

// "name=value" in two.
std::pair<std::string, std::string> SplitSetting(const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos) return {setting, ""};
  return {setting.substr(0, equals), setting.substr(equals + 1)};
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

JobRegistry::JobRegistry(const char* name, JobFunction function)
    : name_(name), function_(function), next_(first_job) {
  first_job = this;
}

std::vector<std::string> JobRegistry::Names() {
  std::vector<std::string> names;
  for (const JobRegistry* job = first_job; job != nullptr; job = job->next_) {
    names.push_back(job->name_);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<JobFunction> JobRegistry::Find(const std::string& name) {
  JobFunction found = nullptr;
  for (const JobRegistry* job = first_job; job != nullptr; job = job->next_) {
    if (job->name_ != name) continue;
    if (found != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("two jobs of this program are called ", name, "; rename one GW_JOB"));
    }
    found = job->function_;
  }
  if (found != nullptr) return found;
  const std::string known = absl::StrJoin(Names(), ", ");
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("say which job: --job=NAME; there are: ", known));
  }
  return absl::NotFoundError(absl::StrCat("there is no job ", name, "; there are: ", known));
}

JobContext::JobContext(Client* client, JobFlags flags, int rank, int world,
                       launch::ProgressWriter progress)
    : client_(client),
      flags_(std::move(flags)),
      rank_(rank),
      world_(world),
      writer_(std::move(progress)) {
  progress_.rank = rank;
}

void JobContext::Begin(int64_t epochs, int64_t planned_rows, std::function<void()> cancel,
                       std::function<absl::Duration()> data_time) {
  progress_.epoch_count += epochs;
  progress_.row_count += planned_rows;
  data_time_ = std::move(data_time);
  if (began_ == absl::InfinitePast()) {
    began_ = reported_at_ = Clock::Real().Now();
    times_before_ = client_->times();
  }
  bool stopped = false;
  const absl::Status settings = CheckSettings();
  {
    MutexLock lock(mu_);
    stop_.Update(settings);
    cancel_ = cancel;
    stopped = !stop_.ok();
  }
  if (stopped) cancel();
}

void JobContext::NoteEnd(const absl::Status& status) {
  UpdateSplit(Clock::Real().Now());
  data_before_ += data_time_ ? data_time_() : absl::ZeroDuration();
  data_time_ = nullptr;
  MutexLock lock(mu_);
  cancel_ = nullptr;
  ended_.Update(status);
}

absl::Status JobContext::status() const {
  MutexLock lock(mu_);
  return !stop_.ok() ? stop_ : ended_;
}

void JobContext::RequestStop(const absl::Status& why) {
  // Under the lock: the range that is cancelled must not go meanwhile.
  MutexLock lock(mu_);
  stop_.Update(why);
  if (cancel_) cancel_();
}

void JobContext::UpdateSplit(absl::Time now) {
  if (began_ == absl::InfinitePast()) return;
  trained_for_ = now - began_;
  const ClientTimes& times = client_->times();
  launch::StepSplit& split = progress_.split;
  split.data = data_before_ + (data_time_ ? data_time_() : absl::ZeroDuration());
  split.pull = times.pull - times_before_.pull;
  split.push = times.push - times_before_.push;
  split.compute = std::max(absl::ZeroDuration(),
                           trained_for_ - split.data - split.pull - split.push - split.wait);
  const uint64_t pushes = times.pushes - times_before_.pushes;
  if (pushes > 0) {
    progress_.staleness = static_cast<double>(times.staleness - times_before_.staleness) /
                          static_cast<double>(pushes);
  }
}

void JobContext::Report(const StepReport& step) {
  const bool first = progress_.rows == 0;  // said at once: when training began
  progress_.rows += step.rows;
  ++steps_;
  if (step.loss.defined()) {
    loss_sum_ += step.loss.item<double>() * static_cast<double>(step.rows);
    loss_rows_ += step.rows;
  }
  const absl::Time now = Clock::Real().Now();
  if (!first && now - reported_at_ < flags_.report_every) return;
  UpdateSplit(now);
  progress_.rows_per_second = static_cast<double>(progress_.rows - rows_at_report_) /
                              std::max(1e-9, absl::ToDoubleSeconds(now - reported_at_));
  if (loss_rows_ > 0) progress_.loss = loss_sum_ / static_cast<double>(loss_rows_);
  loss_sum_ = 0;
  loss_rows_ = 0;
  reported_at_ = now;
  rows_at_report_ = progress_.rows;
  if (progress_.row_count > 0 && progress_.epoch_count > 0) {
    const int64_t rows_an_epoch = std::max<int64_t>(1, progress_.row_count / progress_.epoch_count);
    progress_.epoch = std::min(progress_.epoch_count, (progress_.rows - 1) / rows_an_epoch + 1);
  }
  writer_.Write(progress_);
  WriteEvents();
}

double JobContext::Setting(const std::string& name, double otherwise, double min, double max) {
  asked_.insert(name);
  double value = otherwise;
  for (const std::string& setting : flags_.settings) {
    const auto [set, text] = SplitSetting(setting);
    if (set != name) continue;
    if (!absl::SimpleAtod(text, &value) || !(value >= min && value <= max)) {
      if (first_wrong_setting_.empty()) {
        first_wrong_setting_ =
            absl::StrCat("--set=", EscapedString(setting), ": ", name, " is a number from ", min,
                         " to ", max, ", by default ", otherwise);
      }
      return otherwise;
    }
  }
  return value;
}

absl::Status JobContext::CheckSettings() const {
  if (!first_wrong_setting_.empty()) return absl::InvalidArgumentError(first_wrong_setting_);
  for (const std::string& setting : flags_.settings) {
    if (asked_.contains(SplitSetting(setting).first)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--set=", EscapedString(setting), ": this job has no such setting; it has ",
                     asked_.empty() ? std::string("none") : absl::StrJoin(asked_, ", ")));
  }
  return absl::OkStatus();
}

absl::Status JobContext::OpenEvents(const std::string& name) {
  if (flags_.tensorboard.empty()) return absl::OkStatus();
  GW_ASSIGN_OR_RETURN(events_,
                      data::EventWriter::Create(JoinPath(flags_.tensorboard, name), HostName(),
                                                Clock::Real(), FileSystem::Real()),
                      _ << "--tensorboard=" << flags_.tensorboard);
  return absl::OkStatus();
}

// A disk that fails doesn't end a training; the writer keeps what waits, within its limit.
void JobContext::WriteEvents() {
  if (events_ == nullptr) return;
  absl::Status status;
  const auto write = [&](absl::string_view tag, double value) {
    status.Update(events_->Scalar(tag, steps_, static_cast<float>(value)));
  };
  if (progress_.loss) write("loss/train", *progress_.loss);
  if (progress_.quality)
    write(absl::StrCat("quality/", progress_.quality->name), progress_.quality->value);
  write("speed/rows_per_second", progress_.rows_per_second);
  if (progress_.staleness) write("speed/staleness", *progress_.staleness);
  const launch::StepSplit& split = progress_.split;
  const double total = std::max(1e-9, absl::ToDoubleSeconds(split.total()));
  write("step/data", absl::ToDoubleSeconds(split.data) / total);
  write("step/pull", absl::ToDoubleSeconds(split.pull) / total);
  write("step/compute", absl::ToDoubleSeconds(split.compute) / total);
  write("step/push", absl::ToDoubleSeconds(split.push) / total);
  write("step/wait", absl::ToDoubleSeconds(split.wait) / total);
  status.Update(events_->Flush());
  if (!status.ok()) {
    GW_LOG_EVERY(ERROR, absl::Seconds(10))
        << "can't write to TensorBoard's file; the training goes on without it"
        << Kv("why", status.message());
  }
}

absl::Status JobContext::Save(const std::vector<NamedParameter>& model) {
  if (!saves()) return absl::OkStatus();
  std::vector<at::Tensor> kept;  // what the views show
  std::vector<data::NamedTensor> tensors;
  for (const NamedParameter& parameter : model) {
    kept.push_back(parameter.value.detach().contiguous());
    const at::Tensor& value = kept.back();
    GW_ASSIGN_OR_RETURN(const rpc::DType dtype, rpc::DTypeOf(value.scalar_type()));
    tensors.push_back({.name = parameter.name,
                       .dtype = dtype,
                       .shape = value.sizes().vec(),
                       .bytes = {static_cast<const std::byte*>(value.const_data_ptr()),
                                 static_cast<size_t>(value.nbytes())}});
  }
  return WithContext(
      data::WriteSafetensors(flags_.save, tensors, {{"format", "pt"}}, FileSystem::Real()),
      absl::StrCat("--save=", flags_.save));
}

void JobContext::SetQuality(const std::string& name, double value) {
  progress_.quality = launch::Quality{name, value};
}

void JobContext::Finish(const absl::Status& outcome) {
  if (loss_rows_ > 0) progress_.loss = loss_sum_ / static_cast<double>(loss_rows_);
  progress_.epoch = progress_.epoch_count;
  progress_.done = true;
  if (!outcome.ok()) progress_.error = std::string(outcome.message());
  if (trained_for_ > absl::ZeroDuration()) {
    progress_.rows_per_second =
        static_cast<double>(progress_.rows) / absl::ToDoubleSeconds(trained_for_);
  }
  writer_.Write(progress_);
  if (outcome.ok()) WriteEvents();
}

}  // namespace gradwire::worker
