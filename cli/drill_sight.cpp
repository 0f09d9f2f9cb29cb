#include "cli/drill_sight.h"

#include <algorithm>
#include <filesystem>

#include "cli/client/find.h"
#include "cli/client/start.h"
#include "cli/drill_processes.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {

namespace {

// A drill kills controllers; one that cannot be had so often in a row is broken otherwise.
constexpr int drill_reconnect_limit = 5;

}  // namespace

DrillSight::DrillSight(const Home& home, JobId job, const CommonOptions& common)
    : home_(home), job_(std::move(job)), common_(common) {}

Milliseconds DrillSight::elapsed() const {
  return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - begun_);
}

// One that dies in the middle of this is met by the next look; one that dies each time is not.
Status DrillSight::connect() {
  auto client = ensure_controller(home_, common_);
  if (!client && ++failures_ > drill_reconnect_limit) return client.error();
  if (!client) return Done{};
  client_.emplace(std::move(*client));
  if (!client_->send(Watch{job_})) client_.reset();
  return Done{};
}

void DrillSight::take(const FromController& message) {
  failures_ = 0;
  if (const auto* event = std::get_if<JobEvent>(&message)) {
    if (view_.attempt != event->attempt) {
      view_.step.reset();
      view_.has_output = false;
    }
    view_.attempt = event->attempt;
    if (event->step) view_.step = event->step;
  } else if (const auto* ended = std::get_if<Ended>(&message)) {
    ended_ = *ended;
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    lost_ = Error{refused->message};
  }
}

void DrillSight::look_for_output() {
  if (view_.has_output || !view_.attempt) return;
  std::error_code none;
  for (const auto& file :
       std::filesystem::directory_iterator(home_.attempt(job_, AttemptId{*view_.attempt}), none)) {
    if (file.path().extension() == ".log" && file.file_size(none) > 0) view_.has_output = true;
  }
}

void DrillSight::look_for_saves() {
  std::error_code error;
  std::filesystem::directory_iterator folder(checkpoints_, error);
  if (error) {
    checkpoints_ = checkpoints_of(job_);
    folder = std::filesystem::directory_iterator(checkpoints_, error);
  }
  for (const auto& entry : folder) {
    const std::string name = entry.path().filename().string();
    if (parse_checkpoint_directory_name(name)) view_.save = std::max(view_.save, name);
  }
}

Status DrillSight::look(Milliseconds pause) {
  if (!client_) {
    if (auto connected = connect(); !connected) return connected;
  }
  auto wait = pause;
  while (client_ && !ended_ && !lost_) {
    const auto message = client_->receive(wait);
    if (!message) client_.reset();
    if (!message || !*message) break;
    take((*message)->message);
    wait = Milliseconds{0};
  }
  if (lost_) return *lost_;
  if (!store_) {
    if (auto found = open_job(home_, job_.value)) store_ = std::move(found->store);
  }
  if (const auto row = store_ ? store_->job(job_) : Result<std::optional<JobRow>>(std::nullopt);
      row && *row) {
    view_.state = (*row)->state;  // events come only with something to tell
    view_.checkpoint = (*row)->checkpoint_step;
  }
  look_for_output();
  if (watches_saves_) look_for_saves();
  view_.now = elapsed();
  return Done{};
}

}  // namespace muster
