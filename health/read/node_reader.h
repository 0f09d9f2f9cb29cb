// Reads a node's sources in one helper process that can be killed: a driver that hangs takes only
// the helper with it. The helper is a program that calls serve_node_reads(); it lives between
// reads, and passes on the driver's events. What a source says before another one hangs is kept: a
// hung one is killed at its deadline, and the rest is read by the next helper. One that the kernel
// does not give up is abandoned: nothing more is read until it is gone, so that there is at most
// one. One thread; never blocks but in read_node, and for `reaping` at most in pause() and when it
// is destroyed.
//
//   idle ── begin ──► reading ── all said ──► idle
//                       │ deadline: SIGKILL, reaped: a new helper reads the rest
//                       └ not reaped ──► abandoned ── reaped ──► idle
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "health/nvml/library.h"
#include "health/read/helper_process.h"
#include "health/read/reader_protocol.h"
#include "scheduler/model/result.h"

namespace muster {

// One read of a node as it goes, over as many helpers as it takes: what was said, what is at hand,
// what is left. Belongs to its reader; pure: knows neither processes nor times.

class NodeRead {
 public:
  explicit NodeRead(NodeReadRequest request);

  // For the next helper. Files that were read are not read again, nor those that did not answer;
  // a driver that was asked is not asked again. Nothing: nothing is left.
  std::optional<ReadCommand> command() const;

  // False: no helper in its right mind says this now.
  bool take(const HelperMessage& message);
  bool is_over() const { return is_over_; }
  bool has_files() const { return !wants_files(); }

  // The path or the call that the helper announced and has not answered; empty: none.
  const std::string& at_hand() const { return at_hand_; }
  bool is_call() const { return part_ == Part::gpus && !at_hand_.empty(); }

  // The helper is gone, and what was at hand with it; a next one may read on.
  void unanswered(std::chrono::milliseconds waited);
  void helper_ended(const std::string& how);  // "the helper died of signal 11"
  // All that is left is not read, and says why.
  void give_up(const std::string& why);
  void give_up_unreached();  // because of what was lost last

  NodeReadings& readings() { return readings_; }

 private:
  // Of a helper's work: the next one begins anew.
  enum class Part { files, gpus };

  bool wants_files() const { return files_left_ < request_.sources.size(); }
  bool wants_gpus() const { return readings_.gpus && !gpus_begun_; }
  bool is_listed(std::string_view path) const;
  bool has_room(std::string_view name, std::string_view text);
  bool file_begins(const FileBegins& message);
  bool file_is_read(const FileIsRead& message);
  bool gpu_call_begins(const GpuCallBegins& message);
  bool gpu_is_read(const GpuIsRead& message);
  bool part_over(const HelperMessage& message);
  void lose(const std::string& why);

  NodeReadRequest request_;
  NodeReadings readings_;
  Part part_ = Part::files;
  std::size_t files_left_ = 0;  // the first source that was not read to its end
  std::set<std::string, std::less<>> unanswered_;
  std::string at_hand_;
  std::string lost_;  // "/data: no answer within 5 s"
  bool gpus_begun_ = false;
  bool is_over_ = false;
  std::size_t bytes_ = 0;
};

using SteadyTime = std::chrono::steady_clock::time_point;

struct NodeReaderLimits {
  std::chrono::milliseconds source{5'000};     // silence of one file
  std::chrono::milliseconds gpu_call{10'000};  // of one call of the driver's library
  std::chrono::milliseconds run{60'000};       // of a whole read
  std::chrono::milliseconds reaping{500};      // after a kill, before the helper is abandoned
};

class NodeReader {
 public:
  // `helper`: argv of the helper, its program as a path; it gets its socket as descriptor 3 and
  // the memory in which it answers as 4.
  // `wants_events`: the driver's events are awaited between reads, from the first advance() on.
  struct Options {
    std::vector<std::string> helper;
    NodeReaderLimits limits;
    bool wants_events = false;
    std::string nvml_library;  // for the events
    // While it waits for an event, a helper hears of a read after so long at the latest.
    std::chrono::milliseconds event_slice{100};
    // waitpid, in tests one that never reaps. Somebody else may reap the helper too.
    WaitForProcess wait;
  };
  explicit NodeReader(Options options);
  ~NodeReader();

  // Must be idle. What cannot be read is said in the readings; nothing fails here.
  void begin(NodeReadRequest request);
  // No read is under way; what the last one said may wait to be taken.
  bool is_idle() const { return !reading_; }
  // To be polled for reading; it changes with the helper: ask after each call. -1: none.
  int descriptor() const;
  // When advance() is to be called at the latest; nothing: only when the descriptor is readable.
  std::optional<SteadyTime> wake_at() const;
  // Takes what the helper said; kills what is late. Call on either.
  void advance();
  // Ends the helper and the read that is under way; until resume() nothing is read and no helper is
  // started. One that does not end is remembered.
  void pause();
  void resume();
  // From now on. Each slice costs a call of the driver.
  void set_event_slice(std::chrono::milliseconds slice);
  // Once, when a read is over.
  std::optional<NodeReadings> take();
  std::vector<GpuEvent> take_events();
  // For helper checks; `stuck_in`: the path or call that the abandoned helper hangs in, else empty.
  HelperFacts facts() const;
  const std::string& stuck_in() const;
  bool has_events() const;  // the driver tells events now
  pid_t helper() const;     // that is to be reaped some day; 0: none

 private:
  // Why a helper is killed, or found dead.
  struct Loss {
    std::string at_hand;                              // path or call; empty: it told none
    std::optional<std::chrono::milliseconds> waited;  // for its answer
    std::string how;                                  // else; empty: as its end tells
    bool concerns_read = false;                       // the one that is under way
  };

  // Events alone need a helper before there is something to read.
  struct NoHelper {
    SteadyTime start_at;
  };
  struct Alive {
    HelperProcess process;
    SteadyTime started_at;
    SteadyTime heard_at;
    SteadyTime listened_at;
    FrameCutter cutter{message_bytes_max};
    std::string event_call{};  // that it is in; empty: none
    bool is_watching = false;
    bool has_events = false;
  };
  struct Killed {
    pid_t pid;
    SteadyTime at;
    SteadyTime look_at;
    std::chrono::milliseconds pause;
    Loss loss;
    SteadyTime start_at;  // of the next one, when there is nothing to read
  };
  struct Abandoned {
    pid_t pid;
    SteadyTime killed_at;
    SteadyTime look_at;
    std::string stuck_in;
    std::string since;
  };
  struct ReadUnderWay {
    NodeRead read;
    SteadyTime began_at;
    std::optional<SteadyTime> files_over_at;
    int losses = 0;
    int speechless = 0;
  };

  void ask(Alive& alive);
  void read_on();
  void give_up(const std::string& why);
  void finish();

  Status start();
  void listen();
  bool take(Alive& alive, const HelperMessage& message);
  bool take_reading(Alive& alive, const HelperMessage& message);
  Loss loss_of(const Alive& alive) const;
  Loss ill_loss() const;
  std::optional<std::chrono::milliseconds> patience(const Alive& alive) const;
  void kill_late();
  void lose(Loss loss);
  void look();
  void after(const std::string& how);
  void note(const Loss& loss, const std::string& how);
  void abandon();
  void end_helper();

  void watch();
  void command_watch(Alive& alive);
  SteadyTime start_for_events(const NoHelper& none) const;
  SteadyTime wake_for(const Alive& alive) const;

  Options options_;
  std::variant<NoHelper, Alive, Killed, Abandoned> helper_;
  std::optional<ReadUnderWay> reading_;
  std::optional<NodeReadings> said_;
  std::vector<GpuEvent> events_;
  SteadyTime watch_at_;  // not before
  bool was_started_ = false;
  bool is_paused_ = false;
  std::deque<SteadyTime> restarts_;  // in the latest hour
};

// Waits for it; for programs that have nothing else to do.
NodeReadings read_node(NodeReader& reader, NodeReadRequest request);

// The helper: answers requests on the socket, in the shared memory behind the descriptor above it,
// until the socket is closed. The exit code of the process.
int serve_node_reads(int socket);

}  // namespace muster
