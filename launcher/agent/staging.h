// StageTrees on the node: asks for the blobs that are missing, takes them, builds the trees. The
// file work runs in child tasks; only arriving blobs are written by the agent itself. Owned by
// Agent.
//
//   per attempt:  looking -> (WantBlobs) receiving -> looking -> staged | StageDone with an error
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "launcher/agent/attempt_layout.h"
#include "launcher/agent/child_tasks.h"
#include "launcher/agent/controller_line.h"
#include "launcher/wire/agent_message.h"

namespace muster {

class BlobReceiver;
class BlobStore;

class AttemptStaging {
 public:
  AttemptStaging(const RunDirectory& run, ControllerLine& line, ChildTasks& tasks);
  ~AttemptStaging();

  void stage(const StageTrees& request);
  void receive(const BlobData& piece, std::string_view payload);
  // The controller's connection is gone: unfinished blobs begin anew.
  void line_lost();
  void forget(const AttemptKey& key);

 private:
  struct Entry {
    StageTrees request;
    std::set<std::string> wanted;
    bool is_looking = false;
    bool is_staged = false;
  };

  void look(const AttemptKey& key);
  void looked(const AttemptKey& key, std::optional<std::string> frame);
  void fail(const AttemptKey& key, const std::string& error);
  Status open_store();

  const RunDirectory& run_;
  ControllerLine& line_;
  ChildTasks& tasks_;
  std::unique_ptr<BlobStore> store_;
  std::unique_ptr<BlobReceiver> receiver_;
  std::map<AttemptKey, Entry> entries_;
};

}  // namespace muster
