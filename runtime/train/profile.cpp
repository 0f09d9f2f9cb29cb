#include "runtime/train/profile.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace muster {
namespace {

class TracedTransfer final : public Transfer {
 public:
  TracedTransfer(std::unique_ptr<Transfer> inner, Trace& trace, const TraceEntry& entry)
      : inner_(std::move(inner)), trace_(trace), entry_(entry) {}

  bool done() override { return inner_->done(); }
  void wait() override {
    const TraceSpan span(&trace_, entry_.kind, entry_.number, entry_.bytes);
    inner_->wait();
  }

 private:
  std::unique_ptr<Transfer> inner_;
  Trace& trace_;
  TraceEntry entry_;
};

// Of floats that come from other ranks.
std::uint64_t bytes_to(std::size_t rank, std::span<const ElementRange> ranges) {
  std::uint64_t elements = 0;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    if (r != rank) elements += ranges[r].size();
  }
  return elements * sizeof(float);
}

// The first tries may meet cold paths; in a large world all tries together take long.
constexpr int usual_tries = 8;
constexpr int tries_of_many = 3;
constexpr std::size_t many_ranks = 64;

// Communicators move floats; the bits of a time travel as two of them.
using TimeBits = std::array<float, 2>;

TimeBits send_time(Communicator& ranks, std::size_t from, std::size_t to, std::int64_t time) {
  TimeBits out{}, in{};
  static_assert(sizeof out == sizeof time);
  std::memcpy(out.data(), &time, sizeof time);
  std::vector<ElementRange> send(ranks.size()), receive(ranks.size());
  if (ranks.rank() == from) send[to] = {0, out.size()};
  if (ranks.rank() == to) receive[from] = {0, in.size()};
  ranks.all_to_all(out, send, in, receive);
  return in;
}

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

}  // namespace

std::unique_ptr<Transfer> TracedCommunicator::start_all_to_all(
    std::span<const float> send, std::span<const ElementRange> send_ranges,
    std::span<float> receive, std::span<const ElementRange> receive_ranges) {
  const auto number = static_cast<std::uint32_t>(started_++);
  return std::make_unique<TracedTransfer>(
      inner_.start_all_to_all(send, send_ranges, receive, receive_ranges), trace_,
      TraceEntry{0, 0, SpanKind::reduce_wait, number, bytes_to(rank(), receive_ranges)});
}

std::unique_ptr<Transfer> TracedCommunicator::start_all_gather(
    std::span<float> whole, std::span<const ElementRange> owned) {
  const auto number = static_cast<std::uint32_t>(started_++);
  return std::make_unique<TracedTransfer>(
      inner_.start_all_gather(whole, owned), trace_,
      TraceEntry{0, 0, SpanKind::gather_wait, number, bytes_to(rank(), owned)});
}

std::vector<std::string> TracedCommunicator::gather_texts(std::string_view mine) {
  const TraceSpan span(&trace_, SpanKind::numbers_wait);
  return inner_.gather_texts(mine);
}

RankClock offset_of(std::span<const ClockAnswer> answers) {
  const auto round_trip = [](const ClockAnswer& at) { return at.received_ns - at.sent_ns; };
  const ClockAnswer& best = *std::ranges::min_element(answers, {}, round_trip);
  const std::int64_t half = round_trip(best) / 2;
  return {best.answered_ns - (best.sent_ns + half), half + 1};
}

std::vector<RankClock> measure_clock_offsets(Communicator& ranks) {
  std::vector<RankClock> offsets(ranks.rank() == 0 ? 1 : 0);
  const int tries = ranks.size() > many_ranks ? tries_of_many : usual_tries;
  for (std::size_t other = 1; other < ranks.size(); ++other) {
    std::vector<ClockAnswer> answers;
    for (int i = 0; i < tries; ++i) {
      ClockAnswer answer;
      answer.sent_ns = steady_ns();
      send_time(ranks, 0, other, answer.sent_ns);
      const TimeBits bits = send_time(ranks, other, 0, steady_ns());
      answer.received_ns = steady_ns();
      std::memcpy(&answer.answered_ns, bits.data(), sizeof answer.answered_ns);
      answers.push_back(answer);
    }
    if (ranks.rank() == 0) offsets.push_back(offset_of(answers));
  }
  return offsets;
}

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

std::string Profile::end() {
  trace_.turn(false);
  if (is_written_) return "";
  is_written_ = true;
  return write();
}

std::string Profile::write() {
  const std::vector<std::string> texts =
      ranks_.gather_texts(packed(RankTrace{host_, trace_.entries(), trace_.dropped()}));
  if (ranks_.rank() != 0) return "";
  std::vector<RankTrace> all;
  std::uint64_t spans = 0;
  std::uint64_t dropped = 0;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    all.push_back(unpacked<RankTrace>(texts[r]).value());
    all.back().ahead_ns = offsets_[r].ahead_ns;
    all.back().error_ns = offsets_[r].error_ns;
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
