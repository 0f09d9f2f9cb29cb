#include "cli/image/needs.h"

#include <algorithm>

#include "cli/client/start.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/terminal.h"
#include "launcher/agent/image/pull.h"
#include "launcher/data/cache.h"
#include "launcher/image/name.h"
#include "launcher/staging/content_hash.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr int holdings_version = 1;
const std::string input_prefix = "inputs.";
// Nodes answer within a second or two; a person waits for the slowest.
constexpr Milliseconds node_limit{10'000};
constexpr std::size_t most_named = 4;
constexpr int widest_answer = 300;
constexpr int few_nodes = 8;  // what a registry or a cloud hardly notices
constexpr std::int64_t many_bytes = 100'000'000'000;

std::string amount_of(std::int64_t bytes) {
  return bytes_text(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
}

std::string to_nodes(int nodes) {
  return nodes == 1 ? "the node" : "each of " + std::to_string(nodes) + " nodes";
}

// Of other stores it is not known where they are.
bool is_in_cloud(const DatastoreSpec& store) {
  if (store.type == DatastoreType::local) return false;
  const bool is_s3 = store.remote == "s3" && !store.options.contains("endpoint");
  return store.type != DatastoreType::rclone || is_s3 || store.remote == "google cloud storage";
}

JobNeed need_of(const JobInput& input, const JobSpec& spec, const DataCacheSettings& cache) {
  const InputSpec& listed = spec.inputs.at(input.input);
  const int nodes = spec.muster.nodes_max;
  JobNeed need{input_prefix + input.input, std::to_string(listed.data_files) +
                                               (listed.data_files == 1 ? " file, " : " files, ") +
                                               amount_of(listed.data_bytes) + " from " +
                                               input.place.store.name + ": " + input.place.path};
  if (!cache.shared.empty()) {
    need.text += ", copied once to " + cache.shared + ", which all nodes see";
    return need;
  }
  need.text += (input.how == "stream" ? ", streamed by " : ", copied to ") + to_nodes(nodes);
  if (input.how == "auto") {
    need.text += ", or streamed where that is more than " + cache.stage_below + " of the cache (" +
                 cache.size + ")";
  }
  const std::int64_t all = listed.data_bytes * nodes;
  if (nodes > 1) need.text += ": up to " + amount_of(all) + " in all";
  if (is_in_cloud(input.place.store) && nodes > 1 && (nodes > few_nodes || all > many_bytes)) {
    need.warning = to_nodes(nodes) + " reads " + amount_of(listed.data_bytes) +
                   " from a store in a cloud; with 'data: {shared: DIRECTORY}' in the cluster file "
                   "one of them fetches it for all";
  }
  return need;
}

// What its path has already; what is written there goes back.
JobNeed need_of(const JobOutput& output, int nodes) {
  return {"outputs." + output.output, std::to_string(output.content_files) +
                                          (output.content_files == 1 ? " file, " : " files, ") +
                                          amount_of(output.content_bytes) + " that " +
                                          output.place.store.name + ": " + output.place.path +
                                          " has already, shown to " + to_nodes(nodes)};
}

std::string build_text(const ImageBuild& build, bool is_here, int nodes) {
  return build.name + (build.is_built ? ", built here before of " : ", to be built here of ") +
         (build.context.empty() ? "conda_file" : build.context) + " on " + joined(build.bases) +
         (build.base_bytes == 0 ? "" : " (" + amount_of(build.base_bytes) + ")") +
         (is_here ? "" : ", then copied from here to " + to_nodes(nodes));
}

JobNeed image_need(const EnvironmentSpec& environment, const ImageSettings& images, int nodes) {
  const std::string& name = environment.pull_name;
  const bool has_digest = !environment.digest.empty();
  const std::int64_t bytes = environment.image_bytes;
  JobNeed need{"image", has_digest ? with_digest(name, environment.digest) : name};
  if (bytes > 0) need.text += ", " + amount_of(bytes);
  if (is_of_no_registry(name)) {
    need.text += ", which is on the nodes";
    return need;
  }
  const bool is_brought = has_digest && images.pull == ImageBringer::controller;
  need.text +=
      is_brought ? ", fetched here from " + registry_of(name) + " and copied to " + to_nodes(nodes)
                 : ", pulled from " + registry_of(name) + " by each node that lacks it";
  if (bytes > 0 && nodes > 1) need.text += ": up to " + amount_of(bytes * nodes) + " in all";
  if (!is_brought && nodes > few_nodes && name == whole_image_name(environment.image)) {
    need.warning = to_nodes(nodes) + " that lacks it pulls it from " + registry_of(name) +
                   "; 'mirrors' in the cluster file names a registry nearer to them";
  }
  return need;
}

// `before`: bytes of data that are copied there too.
std::string fate_of(const StagedData& data, std::int64_t bytes, const std::string& cache,
                    std::int64_t& before) {
  if (data.how == "stream") return "streamed";
  const auto room = DataCache::room_at(cache, data.size, data.stage_below);
  if (std::filesystem::exists(std::filesystem::path(cache) / "trees" / data.manifest)) {
    return "cached";
  }
  if (room.limit == 0 && room.free == 0) return {};  // the disk does not say
  const bool may_stream = data.how == "auto";
  if (may_stream && bytes > room.share) return "streamed";
  const std::int64_t held = DataCache::held_bytes(cache), needed = bytes + before;
  if (needed > room.limit || needed > room.free + held) {
    return may_stream
               ? "streamed"
               : std::string(misfit_words) + ": the cache may take " + amount_of(room.limit) +
                     " (data.size: " + data.size + "), and " + amount_of(room.free) + " are free";
  }
  before = needed;
  const bool fits = needed + held <= room.limit && needed <= room.free;
  return fits ? "not cached, fits" : "not cached, fits once unused data are removed";
}

std::string image_fate(const ImagePull& image, const std::string& home) {
  ImageFetch fetch(image, home, own_environment(), [](std::string_view) {});
  const auto is_here = fetch.is_here(false);
  if (!is_here) return is_here.error().message;
  if (*is_here) return "there already";
  const std::string place = fetch.place_of_images();
  const auto disk = place.starts_with('/') ? disk_of(place) : std::filesystem::space_info{};
  if (disk.capacity == 0) return "not there";
  const auto free = static_cast<std::int64_t>(disk.available);
  return (free < image.bytes ? std::string(misfit_words) + ": " : "not there; ") + amount_of(free) +
         " are free in " + place;
}

struct HoldingsAnswer {
  Holdings holdings;

  MUSTER_FIELDS(holdings)
};

// Of nodes to which the controller is connected.
void ask_agents(const Home& home, ComputeTarget target, const HoldingsAsked& asked,
                std::map<NodeId, Holdings>& held) {
  auto client = ControllerClient::connect(home);
  if (!client || !*client) return;
  const auto answer = ask(**client, AskNodes{}, node_limit);
  const auto* lines = answer ? std::get_if<NodesAnswer>(&*answer) : nullptr;
  std::erase_if(target.nodes, [&](const NodeAddress& node) {
    return lines == nullptr || std::ranges::none_of(lines->nodes, [&](const NodeLine& line) {
             return line.node == node.id.value && line.link == "up";
           });
  });
  client = ControllerClient::connect(home);
  LookAtNodes request{{{target, {}}}, {}, node_limit};
  request.wanted.holdings = versioned_json(asked, holdings_version);
  if (target.nodes.empty() || !client || !*client || !(*client)->send(request)) return;
  for (std::size_t i = 0; i < target.nodes.size(); ++i) {
    const auto message = (*client)->receive(2 * node_limit);
    const auto* one = message && *message ? std::get_if<NodeLooked>(&(*message)->message) : nullptr;
    if (one == nullptr) return;
    const auto found = read_versioned_json<HoldingsAnswer>((*message)->payload, holdings_version);
    if (one->error.empty() && found) held[one->node] = found->holdings;
  }
}

}  // namespace

std::vector<JobNeed> needs_of(const JobSpec& spec, const JobData& data,
                              const std::optional<ImageBuild>& build, const ComputeTarget& target,
                              const ImageSettings& images) {
  std::vector<JobNeed> needs;
  const int nodes = spec.muster.nodes_max;
  const EnvironmentSpec& environment = spec.environment;
  if (build) {
    needs.push_back({"image", build_text(*build, is_this_host(target), nodes)});
  } else if (!environment.pull_name.empty()) {
    needs.push_back(image_need(environment, images, nodes));
  }
  for (const JobInput& input : data.inputs) needs.push_back(need_of(input, spec, data.cache));
  for (const JobOutput& output : data.outputs) {
    if (output.content_files > 0) needs.push_back(need_of(output, nodes));
  }
  return needs;
}

void say_warnings(const std::vector<JobNeed>& needs, const CommonOptions& common) {
  for (const JobNeed& need : needs) {
    if (!need.warning.empty()) notice("warning: " + need.name + ": " + need.warning, common);
  }
}

Holdings holdings_here(const HoldingsAsked& asked, const std::string& home) {
  Holdings holdings;
  std::int64_t before = 0;
  for (const StagedData& data : asked.data) {
    const auto bytes = asked.bytes.find(data.input);
    if (bytes == asked.bytes.end() || !is_content_hash(data.manifest)) continue;
    const std::string cache = data.cache.empty() ? home + "/data" : data.cache;
    holdings[input_prefix + data.input] = fate_of(data, bytes->second, cache, before);
  }
  if (asked.image) holdings["image"] = image_fate(*asked.image, home);
  return holdings;
}

Result<std::string> holdings_here(const std::string& asked, const std::string& home) {
  const auto read = read_versioned_json<HoldingsAsked>(asked, holdings_version);
  if (!read) return read.error();
  return versioned_json(HoldingsAnswer{holdings_here(*read, home)}, holdings_version);
}

std::map<NodeId, Holdings> ask_for_holdings(const Home& home, const ComputeTarget& target,
                                            const std::vector<NodeId>& nodes, const JobSpec& spec,
                                            const JobData& data) {
  HoldingsAsked asked;
  for (const JobInput& input : data.inputs) {
    StagedData one{input.input, input.manifest, {}, {}};
    one.cache = data.cache.shared.empty() ? data.cache.cache : data.cache.shared;
    one.size = data.cache.size;
    one.stage_below = data.cache.stage_below;
    one.how = input.how;
    asked.data.push_back(one);
    asked.bytes[input.input] = spec.inputs.at(input.input).data_bytes;
  }
  const EnvironmentSpec& environment = spec.environment;
  if (!environment.pull_name.empty()) {
    asked.image = ImagePull{environment.pull_name,
                            environment.digest,
                            environment.image_bytes,
                            {},
                            environment.runtime};
  }
  std::map<NodeId, Holdings> held;
  if (asked.data.empty() && !asked.image) return held;
  ComputeTarget others = target;
  std::optional<Holdings> here;
  std::erase_if(others.nodes, [&](const NodeAddress& node) {
    if (std::ranges::find(nodes, node.id) == nodes.end()) return true;
    if (node.transport != TransportKind::local) return false;
    const std::string own = (home.root / "nodes").string();
    if (!here) here = holdings_here(asked, target.remote_home.empty() ? own : target.remote_home);
    held[node.id] = *here;
    return true;
  });
  if (!others.nodes.empty()) ask_agents(home, others, asked, held);
  return held;
}

std::string holdings_text(const std::string& need, const std::vector<NodeId>& nodes,
                          const std::map<NodeId, Holdings>& held) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const NodeId& node : nodes) {
    const auto known = held.find(node);
    const bool is_known = known != held.end() && known->second.contains(need);
    std::string text = is_known ? known->second.at(need) : "";
    if (text.empty()) text = "unknown until the job starts";
    groups[shortened(one_line(text), widest_answer)].push_back(node.value);
  }
  std::vector<std::string> parts;
  for (auto& [text, names] : groups) {
    const std::size_t more = names.size() - std::min(names.size(), most_named);
    names.resize(names.size() - more);
    parts.push_back(joined(names) + (more == 0 ? "" : " and " + std::to_string(more) + " more") +
                    ": " + text);
  }
  return joined(parts, "; ");
}

}  // namespace muster
