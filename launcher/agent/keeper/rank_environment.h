// What a rank finds: its environment and its command, made from StartRanks and the paths on this
// node. Pure functions; every value is passed on byte for byte.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/agent/keeper/layout.h"
#include "launcher/wire/agent_message.h"

namespace muster {

using Environment = std::map<std::string, std::string>;

// The few variables of the agent's own environment that a rank inherits.
Environment base_environment(const Environment& own);

// Paths on this node for each input and output, literals as they stand.
struct DataPaths {
  std::map<std::string, std::string> inputs;
  std::map<std::string, std::string> outputs;
};

// `is_staged` tells whether a path exists on this node.
DataPaths data_paths(const StartRanks& start, const AttemptLayout& layout,
                     bool (*is_staged)(const std::string& path));

struct RankSetting {
  const StartRanks& start;
  const AttemptLayout& layout;
  const DataPaths& paths;
  std::string token;
  std::string socket_path;
  std::string lease_path;
  const std::vector<int>& ports;  // held for the attempt; the first are its ranks', in their order
};

// Every process of the attempt has this; user's variables win over what the agent only suggests.
Environment attempt_environment(const RankSetting& setting, const Environment& base);

Environment rank_environment(const RankSetting& setting, const RankLaunch& rank,
                             const Environment& base);

// The command with placeholders filled in and the resume argument appended.
std::string rank_command(const StartRanks& start, const DataPaths& paths);

// What runs in the place of `argv`: itself, or the program that starts Ray on this node and, on the
// first one, runs it.
std::vector<std::string> in_ray(std::vector<std::string> argv, const RankSetting& setting);

std::string checkpoint_directory(const StartRanks& start, const AttemptLayout& layout);
std::string heartbeat_path(const AttemptLayout& layout, RankId rank);
std::string metrics_path(const AttemptLayout& layout, RankId rank);
std::string error_path(const AttemptLayout& layout, RankId rank);  // TORCHELASTIC_ERROR_FILE
std::string python_directory(const AttemptLayout& layout);         // holds muster.py
std::string debug_directory(const AttemptLayout& layout);          // holds sitecustomize.py
// Behind muster.remote_start: the directory of `ssh` and `pdsh`, $MUSTER_HOSTFILE, and
// $MUSTER_DISCOVERY, a program.
std::string door_directory(const AttemptLayout& layout);
std::string hostfile_path(const AttemptLayout& layout);
std::string discovery_path(const AttemptLayout& layout);
inline std::string services_directory(const AttemptLayout& layout) {  // exec/service.cpp
  return layout.spool + "/services";
}
std::string members_path(const AttemptLayout& layout);  // of an elastic attempt: membership.h

}  // namespace muster
