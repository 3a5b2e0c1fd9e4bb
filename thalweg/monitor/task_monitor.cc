// SPDX-License-Identifier: Apache-2.0
#include "thalweg/monitor/task_monitor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/protobuf/wire_format_lite.h"
#include "thalweg/base/clock.h"

namespace thalweg {
namespace {

// Rates are those of the last seconds.
constexpr size_t kMaxSamples = 11;
// Medians are those of this many steps.
constexpr size_t kQuantileSteps = 256;
// They are looked for among the last records.
constexpr uint64_t kQuantileRecords = 2048;

double Seconds(int64_t nanos) { return static_cast<double>(nanos) * 1e-9; }
double Micros(int64_t nanos) { return static_cast<double>(nanos) * 1e-3; }
double WallSeconds() { return static_cast<double>(absl::GetCurrentTimeNanos()) * 1e-9; }

double Quantile(std::vector<int64_t>* values, double q) {
  if (values->empty()) return 0;
  const auto at = static_cast<ptrdiff_t>(q * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), values->begin() + at, values->end());
  return Seconds((*values)[static_cast<size_t>(at)]);
}

}  // namespace

std::string ShortTaskName(absl::string_view task) {
  constexpr absl::string_view kJob = "/job:", kTask = "/task:";
  const size_t at = task.find(kTask);
  if (!absl::StartsWith(task, kJob) || at == absl::string_view::npos) return std::string(task);
  const absl::string_view job = task.substr(kJob.size(), task.find('/', kJob.size()) - kJob.size());
  absl::string_view index = task.substr(at + kTask.size());
  index = index.substr(0, index.find('/'));
  return absl::StrCat(job, " ", index);
}

std::string Utf8Text(absl::string_view text) {
  if (google::protobuf::internal::IsStructurallyValidUTF8(text.data(), static_cast<int>(text.size()))) {
    return std::string(text);
  }
  return absl::CHexEscape(text);
}

TaskMonitor::TaskMonitor(std::string task) : task_(std::move(task)), start_nanos_(NowNanos()), ring_(kMaxSteps) {
  totals_.nanos = start_nanos_;
}

void TaskMonitor::Add(MonitoredStep* step) {
  MutexLock lock(&running_mutex_);
  step->previous_ = nullptr;
  step->next_ = running_;
  if (running_ != nullptr) running_->previous_ = step;
  running_ = step;
}

void TaskMonitor::Remove(MonitoredStep* step) {
  MutexLock lock(&running_mutex_);
  (step->previous_ != nullptr ? step->previous_->next_ : running_) = step->next_;
  if (step->next_ != nullptr) step->next_->previous_ = step->previous_;
}

int32_t TaskMonitor::PeerIndex(absl::string_view task) {
  const auto it = peer_index_.find(task);
  if (it != peer_index_.end()) return it->second;
  // A session may have its own cluster, so the names are not bounded by this one's.
  const bool full = peers_.size() >= kMaxPeers;
  const auto index = static_cast<int32_t>(full ? kMaxPeers - 1 : peers_.size());
  if (full) return index;
  peers_.push_back(ShortTaskName(task));
  totals_.waits.push_back(0);
  updates_.push_back(0);
  peer_index_.emplace(std::string(task), index);
  return index;
}

void TaskMonitor::AddStep(const StepRecord& step) {
  MutexLock lock(&mutex_);
  Recorded& r = ring_[recorded_++ % kMaxSteps];
  r.step_id = step.step_id;
  r.start_nanos = step.start_nanos;
  r.end_nanos = step.end_nanos;
  r.compute_nanos = step.compute_nanos;
  r.input_nanos = step.input_nanos;
  r.transfer_nanos = step.transfer_nanos;
  r.wait_nanos.fill(0);
  r.code = static_cast<int8_t>(step.code);
  r.whole = step.whole;
  r.trains = step.trains;
  int64_t waited = 0;
  for (const StepRecord::Wait& wait : step.waits) {
    const int32_t on = PeerIndex(wait.on);
    totals_.waits[static_cast<size_t>(on)] += wait.nanos;
    waited += wait.nanos;
    // Replaces the shortest wait so far, if it is longer.
    const auto shortest = std::min_element(r.wait_nanos.begin(), r.wait_nanos.end());
    if (*shortest >= wait.nanos) continue;
    *shortest = wait.nanos;
    r.wait_on[static_cast<size_t>(shortest - r.wait_nanos.begin())] = on;
  }
  totals_.compute += step.compute_nanos;
  totals_.input += step.input_nanos;
  totals_.transfer += step.transfer_nanos;
  if (step.code != absl::StatusCode::kOk && step.whole) ++failed_;
  if (step.whole) {
    histograms_[kTotal].Add(step.end_nanos - step.start_nanos);
    last_any_step_nanos_ = step.end_nanos;
    if (step.trains && step.code == absl::StatusCode::kOk) {
      ++totals_.steps;
      last_step_nanos_ = step.end_nanos;
    }
    return;
  }
  if (step.trains && step.code == absl::StatusCode::kOk && !step.master.empty()) {
    ++updates_[static_cast<size_t>(PeerIndex(step.master))];
  }
  histograms_[kCompute].Add(step.compute_nanos);
  histograms_[kWait].Add(waited);
  histograms_[kInput].Add(step.input_nanos);
  histograms_[kTransfer].Add(step.transfer_nanos);
}

namespace {

// Errors of clients' steps are text of theirs, so it has a limit.
constexpr size_t kMaxKind = 40, kMaxText = 2000;

}  // namespace

void TaskMonitor::AddEvent(absl::string_view any_kind, absl::string_view any_text) {
  const std::string kind = Utf8Text(any_kind.substr(0, kMaxKind)), text = Utf8Text(any_text.substr(0, kMaxText));
  MutexLock lock(&mutex_);
  const auto same = std::find_if(events_.rbegin(), events_.rend(),
                                 [&](const MonitorEvent& e) { return e.kind() == kind && e.text() == text; });
  if (same != events_.rend()) {
    same->set_time(WallSeconds());
    return;
  }
  MonitorEvent event;
  event.set_time(WallSeconds());
  event.set_kind(kind);
  event.set_text(text);
  events_.push_back(std::move(event));
  if (events_.size() > kMaxEvents) events_.pop_front();
}

void TaskMonitor::AddFault(absl::string_view kind, absl::string_view text) {
  AddEvent(kind, text);
  MutexLock lock(&mutex_);
  ++num_faults_;
  last_fault_ = absl::StrCat(Utf8Text(kind.substr(0, kMaxKind)), ": ", Utf8Text(text.substr(0, kMaxText)));
}

std::string TaskMonitor::last_fault() const {
  MutexLock lock(&mutex_);
  return last_fault_;
}

int64_t TaskMonitor::num_faults() const {
  MutexLock lock(&mutex_);
  return num_faults_;
}

void TaskMonitor::SetScalar(absl::string_view name, double value) {
  MutexLock lock(&mutex_);
  for (auto& [known, series] : scalars_) {
    if (known != name) continue;
    series.last = value;
    series.fresh = true;
    return;
  }
  if (scalars_.size() >= kMaxScalars) return;
  scalars_.emplace_back(std::string(name), Series{.last = value, .fresh = true});
}

void TaskMonitor::SetCheckpoint(absl::string_view path, int64_t start_nanos, int64_t end_nanos) {
  MutexLock lock(&mutex_);
  checkpoint_.set_path(std::string(path));
  checkpoint_.set_time(WallSeconds());
  checkpoint_.set_seconds(Seconds(end_nanos - start_nanos));
  checkpoint_.set_bytes(0);  // not known yet
}

std::string TaskMonitor::checkpoint() const {
  MutexLock lock(&mutex_);
  return checkpoint_.path();
}

void TaskMonitor::SetCheckpointBytes(const std::string& path, double bytes) {
  MutexLock lock(&mutex_);
  if (checkpoint_.path() == path) checkpoint_.set_bytes(bytes);
}

void TaskMonitor::SetCheckpointVerified(const std::string& path, const std::string& damage) {
  MutexLock lock(&mutex_);
  if (damage.empty()) checkpoint_.set_verified(path);
  checkpoint_.set_damage(damage);
}

void TaskMonitor::Sample(int64_t global_step, double cpu_seconds) {
  MutexLock lock(&mutex_);
  totals_.nanos = NowNanos();
  totals_.global_step = global_step;
  totals_.cpu_seconds = cpu_seconds;
  samples_.push_back(totals_);
  if (samples_.size() > kMaxSamples) samples_.pop_front();
  for (auto& [name, series] : scalars_) {
    if (!std::exchange(series.fresh, false) || ++series.skipped < series.stride) continue;
    series.skipped = 0;
    // The task's own steps stand for the global step in tasks that do not have it.
    series.steps.push_back(static_cast<double>(global_step >= 0 ? global_step : totals_.steps));
    series.values.push_back(series.last);
    if (series.values.size() < kMaxPoints) continue;
    for (size_t i = 0; i < kMaxPoints / 2; ++i) {
      series.steps[i] = series.steps[2 * i];
      series.values[i] = series.values[2 * i];
    }
    series.steps.resize(kMaxPoints / 2);
    series.values.resize(kMaxPoints / 2);
    series.stride *= 2;
  }
}

void TaskMonitor::FillRates(TaskStatus* status) const {
  const Totals nothing;
  const Totals& first = samples_.empty() ? nothing : samples_.front();
  const Totals& last = samples_.empty() ? nothing : samples_.back();
  const double elapsed = Seconds(last.nanos - first.nanos);
  const auto rate = [&](double difference) { return elapsed > 0 ? std::max(difference, 0.0) / elapsed : 0; };
  status->set_steps_per_second(rate(static_cast<double>(last.steps - first.steps)));
  if (last.global_step >= 0) {
    status->set_has_global_step(true);
    status->set_global_step(static_cast<double>(last.global_step));
    // The global step exists only after the variables are initialized.
    const auto known =
        std::find_if(samples_.begin(), samples_.end(), [](const Totals& t) { return t.global_step >= 0; });
    const double known_for = Seconds(last.nanos - known->nanos);
    const auto steps = static_cast<double>(std::max<int64_t>(last.global_step - known->global_step, 0));
    if (known_for > 0) status->set_global_steps_per_second(steps / known_for);
  }
  status->set_cpu_share(rate(last.cpu_seconds - first.cpu_seconds));
  const auto add = [&](const char* phase, const std::string& on, int64_t total, int64_t before, int64_t after) {
    PhaseTime* const time = status->add_phases();
    time->set_phase(phase);
    time->set_on(on);
    time->set_seconds(Seconds(total));
    time->set_share(rate(Seconds(after - before)));
  };
  add("compute", "", totals_.compute, first.compute, last.compute);
  add("input", "", totals_.input, first.input, last.input);
  add("transfer", "", totals_.transfer, first.transfer, last.transfer);
  for (size_t i = 0; i < peers_.size(); ++i) {
    const auto at = [&](const Totals& totals) { return i < totals.waits.size() ? totals.waits[i] : 0; };
    add("wait", peers_[i], totals_.waits[i], at(first), at(last));
  }
}

void TaskMonitor::FillQuantiles(TaskStatus* status) const {
  std::vector<int64_t> steps, own;
  absl::flat_hash_set<int64_t> training;  // steps of this task's program
  const uint64_t begin = recorded_ > kQuantileRecords ? recorded_ - kQuantileRecords : 0;
  for (uint64_t i = recorded_; i > begin && steps.size() < kQuantileSteps; --i) {
    const Recorded& r = ring_[(i - 1) % kMaxSteps];
    if (r.code != 0) continue;
    if (r.whole && r.trains) {
      steps.push_back(r.end_nanos - r.start_nanos);
      training.insert(r.step_id);
    } else if (!r.whole && (r.trains || training.contains(r.step_id))) {
      own.push_back(r.compute_nanos + r.input_nanos);
    }
  }
  status->set_step_seconds_median(Quantile(&steps, 0.5));
  status->set_step_seconds_p99(Quantile(&steps, 0.99));
  status->set_own_seconds_median(Quantile(&own, 0.5));
}

std::vector<TaskMonitor::Recorded> TaskMonitor::LastSteps(int steps) const {
  const uint64_t begin = recorded_ - std::min<uint64_t>({recorded_, kMaxSteps, static_cast<uint64_t>(steps)});
  std::vector<Recorded> last;
  last.reserve(recorded_ - begin);
  for (uint64_t i = begin; i < recorded_; ++i) last.push_back(ring_[i % kMaxSteps]);
  return last;
}

void TaskMonitor::FillTrace(absl::Span<const Recorded> steps, absl::Span<const std::string> peers, TaskStatus* status) {
  for (const Recorded& r : steps) {
    StepTrace* const trace = status->add_trace();
    trace->set_step_id(static_cast<uint64_t>(r.step_id));
    trace->set_whole(r.whole);
    trace->set_start_us(Micros(r.start_nanos));
    trace->set_end_us(Micros(r.end_nanos));
    trace->set_compute_us(Micros(r.compute_nanos));
    trace->set_input_us(Micros(r.input_nanos));
    trace->set_transfer_us(Micros(r.transfer_nanos));
    if (r.code != 0) trace->set_error(absl::StatusCodeToString(static_cast<absl::StatusCode>(r.code)));
    for (size_t k = 0; k < r.wait_nanos.size(); ++k) {
      if (r.wait_nanos[k] == 0) continue;
      PhaseTime* const wait = trace->add_waits();
      wait->set_phase("wait");
      wait->set_on(peers[static_cast<size_t>(r.wait_on[k])]);
      wait->set_seconds(Seconds(r.wait_nanos[k]));
    }
  }
}

void TaskMonitor::Fill(TaskStatus* status, int trace_steps, bool details) const {
  const int64_t now = NowNanos();
  status->set_task(task_);
  status->set_name(ShortTaskName(task_));
  status->set_state("up");
  status->set_time(WallSeconds());
  status->set_now_us(Micros(now));
  status->set_uptime(Seconds(now - start_nanos_));
  FillRunning(status);
  if (trace_steps > 0) {
    // Thousands of records become messages without the lock, which every step takes.
    std::vector<Recorded> steps;
    std::vector<std::string> peers;
    {
      MutexLock lock(&mutex_);
      steps = LastSteps(trace_steps);
      peers = peers_;
    }
    FillTrace(steps, peers, status);
  }
  MutexLock lock(&mutex_);
  status->set_steps(static_cast<double>(totals_.steps));
  status->set_stop_step(static_cast<double>(stop_step_.load(std::memory_order_relaxed)));
  status->set_failed_steps(static_cast<double>(failed_));
  status->set_seconds_since_step(last_step_nanos_ == 0 ? -1 : Seconds(now - last_step_nanos_));
  status->set_seconds_since_any_step(last_any_step_nanos_ == 0 ? -1 : Seconds(now - last_any_step_nanos_));
  FillRates(status);
  FillQuantiles(status);
  constexpr std::array<const char*, kPhases> kNames = {"compute", "input", "transfer", "wait", "total"};
  for (size_t p = 0; p < kPhases; ++p) {
    StepHistogram* const histogram = status->add_histograms();
    histogram->set_phase(kNames[p]);
    for (int i = 0; i <= DurationHistogram::kBounds; ++i) {
      if (i < DurationHistogram::kBounds) histogram->add_bounds(Seconds(DurationHistogram::BoundNanos(i)));
      histogram->add_counts(static_cast<double>(histograms_[p].in_bucket(i)));
    }
    histogram->set_sum(Seconds(histograms_[p].sum_nanos()));
  }
  for (size_t i = 0; i < updates_.size(); ++i) {
    if (updates_[i] == 0) continue;
    GradientCount* const count = status->add_gradients();
    count->set_worker(Utf8Text(peers_[i]));
    count->set_applied(static_cast<double>(updates_[i]));
  }
  for (const MonitorEvent& event : events_) *status->add_events() = event;
  if (checkpoint_.time() > 0) *status->mutable_checkpoint() = checkpoint_;
  for (const auto& [name, series] : scalars_) {
    ScalarSeries* const out = status->add_scalars();
    out->set_name(Utf8Text(name));
    const size_t n = series.values.size();
    for (size_t i = details ? 0 : n - std::min<size_t>(n, 1); i < n; ++i) {
      if (!std::isfinite(series.values[i])) continue;
      out->add_steps(series.steps[i]);
      out->add_values(series.values[i]);
    }
  }
}

void TaskMonitor::FillRunning(TaskStatus* status) const {
  constexpr int kMaxRunning = 1000;
  MutexLock lock(&running_mutex_);
  for (const MonitoredStep* step = running_; step != nullptr && status->running_size() < kMaxRunning;
       step = step->next_) {
    RunningStep* const running = status->add_running();
    step->Describe(running);
    for (StepWait& wait : *running->mutable_waits()) wait.set_on(Utf8Text(wait.on()));
  }
}

}  // namespace thalweg
