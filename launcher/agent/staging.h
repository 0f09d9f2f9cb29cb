// StageTrees on the node: asks for the blobs that are missing, takes them, brings the image, builds
// the trees. The file work runs in child tasks; only arriving blobs are written by the agent
// itself. Owned by Agent.
//
//   per attempt:  looking -> (WantBlobs) receiving -> looking -> staged | StageDone with an error
//
// Staging of any size takes its time; what fails it is that nothing moves: no piece of a blob comes
// in, or the child places no file.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/node/peer.h"
#include "launcher/os/fd.h"
#include "launcher/wire/agent_message.h"
#include "runtime/protocol/boot_clock.h"

namespace muster {

class BlobReceiver;
class BlobStore;

class AttemptStaging {
 public:
  // A network file system comes back within this after its server restarts.
  static constexpr Milliseconds stall_limit{5 * 60 * 1000};

  AttemptStaging(const RunDirectory& run, ControllerLine& line, ChildTasks& tasks);
  ~AttemptStaging();

  void stage(const StageTrees& request);
  // Of an attempt that is staged, for a controller that has not heard it.
  StageDone done_again(const AttemptKey& key) const;
  void receive(const BlobData& piece, std::string_view payload);
  // The controller's connection is gone: unfinished blobs begin anew.
  void line_lost();
  // Fails what waits for blobs and has got none for too long.
  void poll(BootTime now);
  // The attempt is to end: its child is killed and nothing is told.
  void cancel(const AttemptKey& key);
  // Nothing of the attempt is left: its data may be removed.
  void forget(const AttemptKey& key) { entries_.erase(key); }
  // A child still writes below the job's directory.
  bool is_busy(const AttemptKey& key) const;
  bool knows(const JobId& job) const;

 private:
  struct Entry {
    StageTrees request;
    std::set<std::string> wanted;
    std::vector<std::string> streamed;
    std::vector<Fd> held;  // trees in the cache of data, until the attempt ends
    BootTime moved_at{0};
    BootTime told_at{0};
    ChildTasks::TaskId task = 0;
    bool is_looking = false;
    bool is_staged = false;
    bool is_unwanted = false;
  };

  void look(const AttemptKey& key);
  void looked(const AttemptKey& key, Result<std::string> frame);
  void told(const AttemptKey& key, const std::string& doing);
  void fail(const AttemptKey& key, const std::string& error, bool lasting = false,
            bool no_registry = false);
  void clear_image_parts();
  Status open_store();

  const RunDirectory& run_;
  ControllerLine& line_;
  ChildTasks& tasks_;
  std::unique_ptr<BlobStore> store_;
  std::unique_ptr<BlobReceiver> receiver_;
  std::map<AttemptKey, Entry> entries_;
};

// CollectOutputs: the files below outputs/ and logs/ of a job, sent piece by piece as the line has
// room. Owned by Agent. A lost line ends it; the controller asks again.

class CollectReader;

class OutputCollection {
 public:
  explicit OutputCollection(ControllerLine& line);
  ~OutputCollection();
  void begin(const AttemptKey& key, const AttemptLayout& layout);
  void pump();
  void cancel_all();

 private:
  ControllerLine& line_;
  std::map<AttemptKey, std::unique_ptr<CollectReader>> readers_;
};

}  // namespace muster
