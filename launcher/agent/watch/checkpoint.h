// The newest complete checkpoint of a running attempt, looked for in child tasks because the
// directory may lie on a file system that hangs, unless it is near: on the agent's own. Owned by
// Agent, one per running attempt.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/foreign_checkpoints/search.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/wire/agent_request.h"
#include "scheduler/model/record.h"
#include "scheduler/text/fields.h"

namespace muster {

// Where an attempt saves: muster-train's checkpoints in one directory, those of other programs in
// that and in more.
struct SavePlaces {
  std::string directory;
  std::vector<std::string> foreign = {};  // none: other programs' are not looked for
  LookSettings settings = {};
  bool is_near = false;  // all of it lies on the agent's own file system
};

// `own`, `outputs`: the job's own directories on the node; `path`: another one for checkpoints.
struct JobDirectories {
  std::string own;
  std::string outputs;
};
SavePlaces save_places(const std::string& path, const JobDirectories& job,
                       const ForeignSaves& saves);

// What one look found.
struct SeenCheckpoint {
  std::string change;  // of what it looked at; empty: none
  std::optional<CheckpointRef> newest;
  std::optional<CheckpointRef> settled = {};  // the newest of the look before, if it is as it was

  MUSTER_FIELDS(change, newest, settled)
};

class CheckpointWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Found = std::function<void(const CheckpointRef&)>;  // a newer one than before

  CheckpointWatch(ChildTasks& tasks, SavePlaces places, Found found);
  void poll(Clock::time_point now);
  const std::optional<CheckpointRef>& newest() const { return facts_->newest; }

 private:
  struct Facts {  // outlives the watch while a child looks
    std::string seen_change;
    SeenCheckpoint seen_foreign;  // it counts when two looks agree: it may still be written
    std::optional<CheckpointRef> newest;
    bool is_looking = false;
    bool is_looking_for_foreign = false;
    Clock::time_point foreign_look_began{};
    Clock::time_point next_foreign_look{};
    Found found;

    void take(const SeenCheckpoint& seen);
    void take_foreign(const SeenCheckpoint& seen);
  };

  void look_for_foreign(Clock::time_point now);

  ChildTasks& tasks_;
  SavePlaces places_;
  std::shared_ptr<Facts> facts_;
  std::optional<Clock::time_point> next_look_;  // absent: never asked
};

// Whether checkpoint bytes are being written while an attempt's ranks are given time to save.
// Looked for in child tasks, because the directory may lie on a file system that hangs: then
// nothing grows. Owned by Agent, one per attempt that is being stopped.

// What files below a directory looked like at one moment. Either grows when one of them is written,
// also in place (a file that was allocated whole) and while older ones are removed.
struct WrittenBytes {
  std::int64_t newest_ns = 0;  // latest change of a file's content
  std::int64_t bytes = 0;
  bool is_beyond(const WrittenBytes& before) const {
    return newest_ns > before.newest_ns || bytes > before.bytes;
  }

  MUSTER_FIELDS(newest_ns, bytes)
};

// In the first, the checkpoint directory, logs and event files do not count; in the others only
// what is named like a checkpoint does.
WrittenBytes written_below(const std::vector<std::string>& directories);

class CheckpointGrowth {
 public:
  using Clock = std::chrono::steady_clock;

  CheckpointGrowth(ChildTasks& tasks, const SavePlaces& places);
  void poll(Clock::time_point now);
  // Until when the ranks count as saving; absent: nothing has grown.
  std::optional<Clock::time_point> saving_until() const { return facts_->saving_until; }

 private:
  struct Facts {  // outlives the watch while a child looks
    std::optional<WrittenBytes> seen;
    std::optional<Clock::time_point> saving_until;
    Clock::time_point look_began{};
    bool is_looking = false;
    void take(const WrittenBytes& now_seen);
  };

  ChildTasks& tasks_;
  std::vector<std::string> directories_;
  std::shared_ptr<Facts> facts_;
};

// The newest complete checkpoints, as the journal names them. Reads files, may block on a slow file
// system: the agent asks from a child process.

struct CheckpointProbe {
  std::optional<CheckpointRef> newest;
  std::optional<CheckpointRef> newest_certified;  // training went on well after it
  std::optional<CheckpointRef> asked;             // of the step asked for, in its newest history
  std::string trouble;  // there may be newer ones that could not be looked at; empty: no trouble
};

CheckpointProbe probe_checkpoints(const SavePlaces& places,
                                  std::optional<std::int64_t> asked_step = std::nullopt);
// At once, where that is possible: they are near, and few.
std::optional<CheckpointProbe> probe_near_checkpoints(const SavePlaces& places);

}  // namespace muster
