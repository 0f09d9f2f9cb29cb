// What nodes need for a job beside its own files: its image, and data of stores. What is said about
// them before they are brought, and what nodes have already, which plan asks: nodes of this machine
// are looked at; others answer where the controller is connected to them anyway, by their agents,
// which run `muster agent probe holdings`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/image/image.h"
#include "launcher/data/datastore.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/job_spec.h"

namespace muster {

struct JobNeed {
  std::string name;  // "inputs.NAME"; "image", the first
  std::string text;  // what is brought, from where, how, how many bytes
  std::string warning{};
};

// Of a job whose image is pinned and whose inputs are listed. Pure.
std::vector<JobNeed> needs_of(const JobSpec& spec, const JobData& data,
                              const std::optional<ImageBuild>& build, const ComputeTarget& target,
                              const ImageSettings& images);

void say_warnings(const std::vector<JobNeed>& needs, const CommonOptions& common);

// By the name of a need: "cached", "fits", "does not fit: …". None where it is not known.
using Holdings = std::map<std::string, std::string>;
inline constexpr const char* misfit_words = "does not fit";

struct HoldingsAsked {
  std::vector<StagedData> data;  // without configuration
  std::map<std::string, std::int64_t> bytes;
  std::optional<ImagePull> image{};

  MUSTER_FIELDS(data, bytes, image)
};

// On this machine; `home` is muster's there. Only looks.
Holdings holdings_here(const HoldingsAsked& asked, const std::string& home);
// The same for a process that is asked in words; an Error: they are not ours.
Result<std::string> holdings_here(const std::string& asked, const std::string& home);

// Of the nodes that could be asked.
std::map<NodeId, Holdings> ask_for_holdings(const Home& home, const ComputeTarget& target,
                                            const std::vector<NodeId>& nodes, const JobSpec& spec,
                                            const JobData& data);
// "h1, h2: cached; h3: unknown until the job starts".
std::string holdings_text(const std::string& need, const std::vector<NodeId>& nodes,
                          const std::map<NodeId, Holdings>& held);

}  // namespace muster
