#include "health/read/node_read.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "health/model/source_files.h"
#include "health/read/files.h"

namespace muster {

namespace {

// Three times what one helper reads, for the next may have to read some of it again.
constexpr std::size_t bytes_max = 96u << 20;

std::ptrdiff_t components_of(std::string_view path) {
  const std::string_view words = source_pattern_of(path).path;
  return words == "/" ? 0 : std::ranges::count(words, '/');
}

}  // namespace

NodeRead::NodeRead(NodeReadRequest request) : request_(std::move(request)) {
  if (request_.gpus) readings_.gpus.emplace();
}

std::optional<ReadCommand> NodeRead::command() const {
  if (is_over_ || (!wants_files() && !wants_gpus())) return std::nullopt;
  ReadCommand command{request_, unanswered_};
  command.request.sources.erase(
      command.request.sources.begin(),
      command.request.sources.begin() + static_cast<std::ptrdiff_t>(files_left_));
  if (!wants_gpus()) command.request.gpus.reset();
  for (const auto& [path, reading] : readings_.files.all()) {
    if (!reading.text.empty() || !is_listed(path)) command.skip.insert(path);
  }
  return command;
}

// A directory that is left alone hides what is below it.
bool NodeRead::is_listed(std::string_view path) const {
  const auto left = std::span(request_.sources).subspan(files_left_);
  return std::ranges::any_of(left, [&](const std::string& source) {
    return covers(source, path) && components_of(path) < components_of(source);
  });
}

bool NodeRead::take(const HelperMessage& message) {
  if (part_ == Part::files) {
    if (const auto* begins = std::get_if<FileBegins>(&message)) return file_begins(*begins);
    if (const auto* file = std::get_if<FileIsRead>(&message)) return file_is_read(*file);
  } else if (readings_.gpus) {
    if (const auto* begins = std::get_if<GpuCallBegins>(&message)) return gpu_call_begins(*begins);
    if (const auto* gpu = std::get_if<GpuIsRead>(&message)) return gpu_is_read(*gpu);
  }
  return part_over(message);
}

bool NodeRead::file_begins(const FileBegins& message) {
  at_hand_ = message.path;
  return true;
}

bool NodeRead::file_is_read(const FileIsRead& message) {
  if (!has_room(message.path, message.reading.text)) return false;
  readings_.files.add(message.path, message.reading);
  at_hand_.clear();
  return true;
}

bool NodeRead::gpu_call_begins(const GpuCallBegins& message) {
  gpus_begun_ = true;
  readings_.gpus->begin_call(message.call);
  at_hand_ = message.call;
  return true;
}

bool NodeRead::gpu_is_read(const GpuIsRead& message) {
  if (!has_room(message.key, message.reading.value)) return false;
  readings_.gpus->add(message.key, message.reading);
  at_hand_.clear();
  return true;
}

bool NodeRead::part_over(const HelperMessage& message) {
  const bool are_files = part_ == Part::files;
  const bool is_meant = are_files ? std::holds_alternative<FilesOver>(message)
                                  : std::holds_alternative<ReadOver>(message);
  if (!is_meant) return false;
  at_hand_.clear();
  part_ = Part::gpus;
  files_left_ = request_.sources.size();
  is_over_ = !are_files;
  if (is_over_ && readings_.gpus) readings_.gpus->complete();
  return true;
}

bool NodeRead::has_room(std::string_view name, std::string_view text) {
  bytes_ += name.size() + text.size();
  return bytes_ <= bytes_max;
}

void NodeRead::unanswered(std::chrono::milliseconds waited) {
  if (at_hand_.empty()) return helper_ended("the helper stood still");
  const FileReading reading = unanswered_reading(waited);
  if (part_ == Part::files) readings_.files.add(at_hand_, reading);
  lose(reading.error);
}

void NodeRead::helper_ended(const std::string& how) {
  if (part_ == Part::gpus && gpus_begun_)
    readings_.gpus->stop(at_hand_.empty() ? how : how + " in " + at_hand_);
  if (part_ == Part::files && !at_hand_.empty())
    readings_.files.add(at_hand_, FileReading{{}, how, false});
  lose(how);
}

// The next helper begins with the source that the path was read for: each path is read for the
// first one that covers it, so that those before are finished.
void NodeRead::lose(const std::string& why) {
  lost_ = at_hand_.empty() ? why : at_hand_ + ": " + why;
  if (part_ == Part::files && !at_hand_.empty()) {
    unanswered_.insert(at_hand_);
    const auto left = std::span(request_.sources).subspan(files_left_);
    const auto covering = std::ranges::find_if(
        left, [&](const std::string& source) { return covers(source, at_hand_); });
    if (covering != left.end()) {
      const bool is_whole = place_of(*covering) == *covering;
      files_left_ += static_cast<std::size_t>(covering - left.begin()) + (is_whole ? 1 : 0);
    }
  }
  part_ = Part::files;
  at_hand_.clear();
}

void NodeRead::give_up(const std::string& why) {
  helper_ended(why);
  is_over_ = true;
  for (const std::string& source : std::span(request_.sources).subspan(files_left_)) {
    const std::string place = place_of(source);
    const bool is_whole = place == source && readings_.files.all().contains(place);
    if (is_whole || unanswered_.contains(place)) continue;
    readings_.files.add(place, FileReading{{}, why, false});
  }
  if (readings_.gpus && !gpus_begun_) readings_.gpus->stop(why);
}

void NodeRead::give_up_unreached() {
  give_up("not reached: " + lost_);
}

}  // namespace muster
