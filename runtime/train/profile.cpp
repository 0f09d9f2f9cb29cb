#include "runtime/train/profile.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "runtime/communicator/communicator.h"
#include "runtime/report/trace_file.h"

namespace muster {
namespace {

// Of 32 bytes each. Every rank sees those of all when they are collected.
constexpr std::size_t spans_of_all = 1'000'000;
constexpr std::size_t most_spans = 100'000;
constexpr std::size_t least_spans = 1'000;

std::string file_in(const std::string& directory, const std::string& host) {
  using namespace std::chrono;
  const auto ms = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  return directory + "/" + host + "_" + std::to_string(::getpid()) + "." + std::to_string(ms) +
         ".pt.trace.json";
}

// Where the file will be; throws StartError when it could not be created.
std::string checked_path(const std::string& asked, const std::string& host) {
  namespace fs = std::filesystem;
  std::error_code code;
  const bool is_folder = asked.ends_with('/') || fs::is_directory(asked, code);
  const std::string path = is_folder ? file_in(asked, host) : asked;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty()) fs::create_directories(folder, code);
  const bool was_there = fs::exists(path, code);
  if (!std::ofstream(path, std::ios::app)) throw StartError("--profile: cannot write " + path);
  if (!was_there) fs::remove(path, code);
  return path;
}

std::string pack(const std::string& host, const Trace& trace) {
  std::string text = host + "\n" + std::to_string(trace.dropped()) + "\n";
  const auto& entries = trace.entries();
  return text.append(reinterpret_cast<const char*>(entries.data()),
                     entries.size() * sizeof(TraceEntry));
}

RankTrace unpack(const std::string& text, const RankClock& offset) {
  RankTrace rank;
  const std::size_t host_end = text.find('\n');
  const std::size_t count_end = text.find('\n', host_end + 1);
  rank.host = text.substr(0, host_end);
  rank.dropped = std::stoull(text.substr(host_end + 1, count_end - host_end - 1));
  const std::string_view bytes = std::string_view(text).substr(count_end + 1);
  rank.entries.resize(bytes.size() / sizeof(TraceEntry));
  if (!bytes.empty()) std::memcpy(rank.entries.data(), bytes.data(), bytes.size());
  rank.ahead_ns = offset.ahead_ns;
  rank.error_ns = offset.error_ns;
  return rank;
}

}  // namespace

Profile::Profile(const TrainOptions& options, const std::string& host, std::uint64_t finished,
                 Communicator& ranks)
    : path_(on_all_ranks(ranks,
                         [&] {
                           if (ranks.rank() != 0) return std::string();
                           return checked_path(options.profile, host);
                         })),
      host_(host),
      first_(options.profile_steps ? options.profile_steps->first : finished + 1),
      last_(options.profile_steps ? options.profile_steps->last : finished + usual_profile_steps),
      ranks_(ranks),
      trace_(std::clamp(spans_of_all / ranks.size(), least_spans, most_spans)),
      traced_(ranks, trace_),
      offsets_(measure_clock_offsets(ranks)) {}

void Profile::begin_step(std::uint64_t finished) {
  traced_.begin_step();
  trace_.turn(finished + 1 >= first_ && finished + 1 <= last_);
}

std::string Profile::end_step(std::uint64_t finished) {
  return finished >= last_ ? end() : "";
}

std::string Profile::end() {
  trace_.turn(false);
  if (is_written_) return "";
  is_written_ = true;
  return write();
}

std::string Profile::write() {
  const std::vector<std::string> texts = ranks_.gather_texts(pack(host_, trace_));
  if (ranks_.rank() != 0) return "";
  std::vector<RankTrace> all;
  std::uint64_t spans = 0;
  std::uint64_t dropped = 0;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    all.push_back(unpack(texts[r], offsets_[r]));
    spans += all.back().entries.size();
    dropped += all.back().dropped;
  }
  if (spans == 0) return "warning: --profile: none of the requested steps came";
  std::ofstream file(path_, std::ios::trunc);
  file << format_trace(all) << std::flush;
  if (!file) return "warning: --profile: cannot write " + path_;
  std::string line = "profile " + path_ + ": " + std::to_string(spans) + " spans";
  if (dropped > 0) line += ", " + std::to_string(dropped) + " more were dropped";
  return line;
}

}  // namespace muster
