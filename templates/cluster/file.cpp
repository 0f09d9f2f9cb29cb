#include "templates/cluster/file.h"

#include <algorithm>
#include <set>

#include "health/checks/check_names.h"
#include "scheduler/model/remediation.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/profile/reader.h"
#include "templates/settings/setting_table.h"
#include "templates/yaml/host_list.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

constexpr std::size_t most_targets = 1000;

std::string read_path(const Value& value) {
  const std::string path = value.text().value_or("~");
  const bool is_placed = path.starts_with('/') || path == "~" || path.starts_with("~/");
  if (!is_placed) value.misfit("a path that begins with / or ~/");
  return value.is_scalar() ? path : "";
}

std::string read_absolute_path(const Value& value) {
  std::string path = read_path(value);
  if (path.starts_with('~')) value.error("expected an absolute path");
  return path;
}

void read_ports(const Value& value, ComputeTarget& target) {
  const auto text = value.text();
  if (!text) return;
  std::string_view rest = *text;
  const auto low = whole_number(take_until(rest, '-'));
  const auto high = whole_number(rest);
  if (low && high && *low >= 1024 && *high <= 65535 && *low <= *high) {
    target.port_min = static_cast<int>(*low);
    target.port_max = static_cast<int>(*high);
  } else {
    value.misfit("two ports from 1024 to 65535 such as 20000-29999");
  }
}

// Refuses an option in disguise and a shell's letters: both go into the command line of ssh.
bool is_plain_name(std::string_view name) {
  return name.size() <= 253 && !name.starts_with('-') && is_word_of(name, "-_.:@%\\$");
}

void read_plain(const Value& value, std::string& field) {
  const auto text = value.text();
  if (!text) return;
  if (!is_plain_name(*text)) value.misfit("a name");
  field = *text;
}

// Keys a node shares with its target, which gives the defaults.
void read_access(MapReader& map, NodeAddress& node) {
  read_plain(map.take("user"), node.user);
  store(node.port, map.take("port").integer(1, 65535));
  const Value identity = map.take("identity_file");
  if (identity.given()) node.identity_file = read_path(identity);
}

// The nodes of one target as they are read.
class NodeListReader {
 public:
  NodeListReader(NodeAddress defaults, std::vector<NodeAddress>& nodes)
      : defaults_(std::move(defaults)), nodes_(nodes) {}

  void read(const Value& value) {
    for (const Value& each : value.list_or_one()) {
      if (each.is_scalar()) {
        read_names(each);
      } else if (each.is_map()) {
        read_map(each);
      } else {
        each.error("expected a host name, a range such as n[01-04] or a map with 'name'");
      }
      if (value.findings().full()) return;
    }
    if (value.present() && nodes_.empty()) value.error("expected at least one node");
  }

 private:
  void read_names(const Value& value) {
    const auto names = expand_hosts(value.node().text);
    if (!names) return value.error(names.error().message);
    for (const std::string& name : *names) {
      NodeAddress node = defaults_;
      node.id = NodeId{name};
      node.host = name;
      add(value, std::move(node));
    }
  }

  void read_map(const Value& value) {
    MapReader map(value);
    NodeAddress node = defaults_;
    read_plain(map.require("name"), node.id.value);
    node.host = node.id.value;
    read_plain(map.take("host"), node.host);
    read_plain(map.take("address"), node.job_address);
    read_access(map, node);
    map.finish();
    if (!node.id.value.empty()) add(value, std::move(node));
  }

  void add(const Value& where, NodeAddress node) {
    if (static_cast<int>(nodes_.size()) >= max_hosts) {
      where.error("more than " + std::to_string(max_hosts) + " nodes");
    } else if (!seen_.insert(node.id.value).second) {
      where.error("the node " + quoted_text(node.id.value) + " is listed twice");
    } else {
      nodes_.push_back(std::move(node));
    }
  }

  NodeAddress defaults_;
  std::vector<NodeAddress>& nodes_;
  std::set<std::string> seen_;
};

constexpr int most_handshakes = 1024;  // each holds a socket and some 100 KiB
constexpr int most_per_host = 100;     // sshd's MaxStartups drops all of them from here on
constexpr int most_retries = 100;
constexpr int least_radix = 2, most_radix = 256;

void read_time(const Value& value, Milliseconds& field) {
  const auto duration = value.duration();
  if (!duration) return;
  if (*duration < Seconds{1}) value.error("expected 1 second or more");
  field = *duration;
}

std::optional<Milliseconds> read_lease(const Value& value) {
  const auto duration = value.duration();
  if (!duration || (*duration >= shortest_lease && *duration <= longest_lease)) return duration;
  value.error("expected a duration from 3s to 1h such as 20s");
  return std::nullopt;
}

void read_fan_out(const Value& value, TransportKind transport, ConnectSettings& connect) {
  if (!value.present()) return;
  if (transport != TransportKind::local) {
    return value.error("nodes are reached over ssh, and each has a link of its own",
                       "remove 'fan_out'");
  }
  MapReader map(value);
  store(connect.fan_out_above, map.take("above").integer(0, ConnectSettings::most_nodes));
  store(connect.fan_out_radix, map.take("radix").integer(least_radix, most_radix));
  read_time(map.take("patience"), connect.fan_out_patience);
  read_time(map.take("set_aside"), connect.fan_out_set_aside);
  read_time(map.take("silence"), connect.fan_out_silence);
  map.finish();
}

ConnectSettings read_connect(const Value& value, TransportKind transport) {
  MapReader map(value);
  ConnectSettings connect;
  read_fan_out(map.take("fan_out"), transport, connect);
  connect.refuses_unknown_hosts =
      map.take("unknown_hosts").choice<bool>({{"record", false}, {"refuse", true}}).value_or(false);
  store(connect.handshakes, map.take("handshakes").integer(1, most_handshakes));
  store(connect.unauthenticated_per_host,
        map.take("unauthenticated_per_host").integer(1, most_per_host));
  store(connect.retries, map.take("retries").integer(0, most_retries));
  read_time(map.take("resolve_timeout"), connect.resolve_timeout);
  read_time(map.take("tcp_timeout"), connect.tcp_timeout);
  read_time(map.take("login_timeout"), connect.login_timeout);
  read_time(map.take("silence"), connect.silence);
  map.finish();
  return connect;
}

// ---- commands of a site

constexpr std::size_t most_words = 100;
constexpr std::size_t longest_word = 4096;

std::vector<std::string> words_of(const Value& value) {
  if (value.is_list()) return value.texts();
  const auto words = command_words(value.text().value_or(""));
  if (!words) value.error(words.error().message);
  return words ? *words : std::vector<std::string>();
}

void check_word(const Value& value, const std::string& word, bool is_program) {
  if (word.size() > longest_word || word.find('\0') != std::string::npos) {
    value.error("expected words of at most " + std::to_string(longest_word) + " letters");
  }
  if (const auto unknown = unknown_placeholder(word)) {
    value.error("there is no placeholder {" + *unknown + "}",
                value.suggest(*unknown, remedy_placeholders));
  } else if (is_program && word.find('{') != std::string::npos) {
    value.error("the program itself cannot be a placeholder");
  }
}

std::vector<std::string> read_command(const Value& value) {
  if (!value.given()) return {};
  std::vector<std::string> words = words_of(value);
  if (words.empty() || words.front().empty()) {
    value.error("expected a command");
    return {};
  }
  if (words.size() > most_words) {
    value.error("expected at most " + std::to_string(most_words) + " words");
    return {};
  }
  for (std::size_t i = 0; i < words.size(); ++i) check_word(value, words[i], i == 0);
  return words;
}

RemedyCommands read_remedies(const Value& value) {
  RemedyCommands commands;
  if (!value.given()) return commands;
  MapReader map(value);
  commands.reset = read_command(map.take("reset"));
  commands.reboot = read_command(map.take("reboot"));
  commands.reboot_from_here = read_command(map.take("reboot_from_here"));
  map.finish();
  const auto needs_gpu = [](const std::string& word) {
    return mentions(word, "{gpu}") || mentions(word, "{device}");
  };
  for (const auto* reboot : {&commands.reboot, &commands.reboot_from_here}) {
    if (std::ranges::any_of(*reboot, needs_gpu)) {
      value.warning(
          "a reboot is of a node: faults of no GPU or device will not be answered with "
          "this command");
    }
  }
  return commands;
}

// ---- targets

ComputeTarget read_target(const Value& value) {
  ComputeTarget target;
  target.name = value.key();
  if (target.name == "local" || target.name == "local-cluster") {
    value.error("the name is built in; choose another");
  } else if (!is_plain_name(target.name)) {
    value.error(quoted_text(target.name) + " is not a name");
  }
  MapReader map(value);
  NodeAddress defaults;
  defaults.transport = map.take("transport")
                           .choice<TransportKind>({{"ssh", TransportKind::ssh},
                                                   {"openssh", TransportKind::openssh},
                                                   {"local", TransportKind::local}})
                           .value_or(TransportKind::ssh);
  read_access(map, defaults);
  NodeListReader(defaults, target.nodes).read(map.require("nodes"));
  target.shared_root = read_absolute_path(map.take("shared_root"));
  target.remote_home = read_path(map.take("remote_home"));
  target.lease = read_lease(map.take("lease"));
  read_time(map.take("unreachable"), target.unreachable);
  read_ports(map.take("ports"), target);
  target.notice_file = read_absolute_path(map.take("notice_file"));
  target.connect = read_connect(map.take("connect"), defaults.transport);
  const Value health = map.take("health");
  if (health.present()) target.health = read_profile_value(health, names_of_checks());
  target.remedies = read_remedies(map.take("remedies"));
  map.finish();
  if (!value.is_map() && value.is_null()) value.error("expected a map with 'nodes'");
  return target;
}

void check_default(const Value& value, ClusterFile& file) {
  const auto name = value.text();
  if (!name) return;
  file.default_target = *name;
  std::vector<std::string> names;
  for (const ComputeTarget& target : known_targets(file)) names.push_back(target.name);
  if (std::ranges::find(names, *name) != names.end()) return;
  value.error("there is no target " + quoted_text(*name), did_you_mean(*name, names));
}

// What is in use is marked so every few hours, and a submission may take as long.
constexpr Milliseconds shortest_keep = days(1);

void read_keep(const Value& value, RetentionLimits::Keep& keep) {
  if (!value.given()) return;
  const std::string text = value.text().value_or("");
  const auto duration = parse_duration(text);
  if (text == "never") {
    keep.reset();
  } else if (duration && *duration >= shortest_keep) {
    keep = *duration;
  } else {
    value.error("expected a duration of at least 1d such as 90d, or never");
  }
}

constexpr std::size_t most_datastores = 1000;

// ---- images

constexpr std::size_t most_image_names = 1000;

std::vector<std::string> read_allowed(const Value& value) {
  std::vector<std::string> patterns = value.texts();
  if (value.present() && patterns.empty()) value.error("expected at least one pattern of names");
  for (const std::string& pattern : patterns) {
    if (!is_word_of(pattern, "-_./:@*[]")) {
      value.error("expected a pattern of image names such as mcr.microsoft.com/*, got " +
                  quoted_text(pattern));
    }
  }
  return patterns;
}

std::map<std::string, std::string> read_names(const Value& value, std::string_view also,
                                              const char* expected) {
  std::map<std::string, std::string> names = value.text_map();
  if (names.size() > most_image_names) value.error("expected at most 1000 entries");
  for (const auto& [from, to] : names) {
    const bool is_plain = is_word_of(from, also) && is_word_of(to, "-_./:@") && to[0] != '-';
    if (!is_plain) value.error(expected + quoted_text(from) + ": " + quoted_text(to));
  }
  return names;
}

ImageSettings read_images(MapReader& file) {
  ImageSettings images;
  MapReader containers(file.take("containers"));
  images.allow = read_allowed(containers.take("allow"));
  images.pull = containers.take("pull")
                    .choice<ImageBringer>({{"auto", ImageBringer::automatic},
                                           {"nodes", ImageBringer::nodes},
                                           {"controller", ImageBringer::controller}})
                    .value_or(ImageBringer::automatic);
  const auto runtime = containers.take("runtime").word(
      {"auto", "podman", "docker", "apptainer", "enroot", "charliecloud", "bubblewrap"});
  if (runtime && *runtime != "auto") images.runtime = *runtime;
  containers.finish();
  images.mirrors = read_names(
      file.take("mirrors"), "-_./:", "expected beginnings of image names such as docker.io/, got ");
  images.environments = read_names(file.take("environments"), "-_./:*",
                                   "expected NAME[:VERSION] and an image or host, got ");
  images.refuses_unknown_environments = file.take("unknown_environment")
                                            .choice<bool>({{"host", false}, {"refuse", true}})
                                            .value_or(false);
  return images;
}

// ---- the rest

// A store written out, or the path of its file.
void read_datastores(const Value& value, const FileView& files, ClusterFile& file) {
  const std::vector<Value> stores = MapReader(value).entries();
  if (stores.size() > most_datastores) return value.error("more than 1000 datastores");
  for (const Value& each : stores) {
    if (!each.is_scalar()) {
      file.datastores.push_back(read_datastore(each, each.key()));
      continue;
    }
    if (!files.read) continue;
    const std::string path = absolute_path(each.node().text, each.node().place.source->directory);
    const auto text = files.read(path, max_file_bytes);
    if (!text) {
      each.error(text.error().message);
    } else if (const auto tree = parse_with_sets(path, *text, {}, value.findings())) {
      file.datastores.push_back(read_datastore(Value(*tree, "", value.findings()), each.key()));
    }
  }
}

// ---- which target a job runs on

std::string unknown_suggestion(const std::vector<ComputeTarget>& known, const std::string& name) {
  std::vector<std::string> names;
  for (const ComputeTarget& target : known) names.push_back(target.name);
  const std::string meant = did_you_mean(name, names);
  return meant.empty() ? "known are " + joined(names) : meant;
}

// What a job asks of its target.
struct TargetCheck {
  void say(Severity severity, const std::string& key, const std::string& message,
           const std::string& suggestion = "") {
    out.push_back(finding_about(job, severity, key, key + ": " + message, suggestion));
  }

  // The first unknown name is enough: the list is mostly one range.
  void check_placement(const char* key, const std::vector<std::string>& names) {
    std::set<std::string> nodes;
    for (const NodeAddress& node : target.nodes) nodes.insert({node.id.value, node.host});
    const auto unknown =
        std::ranges::find_if(names, [&](const std::string& each) { return !nodes.contains(each); });
    if (unknown == names.end()) return;
    say(Severity::unresolved, key, name + " has no node " + quoted_text(*unknown),
        did_you_mean(*unknown, {nodes.begin(), nodes.end()}));
  }

  // A job that takes fewer nodes than it would like is held to what it needs.
  void check_size() {
    const auto nodes = static_cast<int>(target.nodes.size());
    const int wanted = job.spec.instance_count;
    const int least = std::min(wanted, job.spec.muster.nodes_min);
    const int most = std::max(wanted, job.spec.muster.nodes_max);
    const std::string key = least < wanted ? "muster.nodes.min" : "resources.instance_count";
    const std::string has =
        name + " has " + std::to_string(nodes) + (nodes == 1 ? " node, got " : " nodes, got ");
    if (target.name == "local" && least > 1) {
      say(Severity::error, key, "'local' is one node, got " + std::to_string(least),
          "'compute: local-cluster' is this host as several");
    } else if (least > nodes) {
      say(Severity::error, key, has + std::to_string(least));
    } else if (most > nodes) {
      say(Severity::note, "muster.nodes.max", has + std::to_string(most));
    }
  }

  // Too few of them stop no job, but whoever asks for them should know.
  void check_spares() {
    const int spares = job.spec.muster.nodes_spares;
    const int left = static_cast<int>(target.nodes.size()) -
                     std::max(job.spec.instance_count, job.spec.muster.nodes_max);
    if (spares == 0 || spares <= left) return;
    say(Severity::warning, "muster.nodes.spares",
        name + " has " + std::to_string(std::max(0, left)) + " beside the job's own nodes, got " +
            std::to_string(spares));
  }

  const JobFile& job;
  const ComputeTarget& target;
  std::vector<Finding>& out;
  std::string name = "the target " + quoted_text(target.name);
};

}  // namespace

ClusterFile read_cluster(const Value& root, const FileView& files) {
  ClusterFile file;
  MapReader map(root);
  const Value compute = map.take("compute");
  const std::vector<Value> targets = MapReader(compute).entries();
  if (targets.size() > most_targets) {
    compute.error("expected at most " + std::to_string(most_targets) + " targets");
  } else {
    for (const Value& each : targets) file.targets.push_back(read_target(each));
  }
  check_default(map.take("default"), file);
  read_datastores(map.take("datastores"), files, file);
  store(file.default_datastore, map.take("default_datastore").text());
  file.data = read_data_cache(map.take("data"));
  MapReader policy(map.take("policy"));
  file.rules = read_rule_list(policy.take("rules"));
  policy.finish();
  file.images = read_images(map);
  map.finish();
  return file;
}

ClusterFile read_cluster_file(const std::string& path, std::string_view text,
                              const ReadOptions& options) {
  ClusterFile file;
  FindingList findings;
  const auto tree = parse_with_sets(path, text, options, findings);
  if (tree && tree->kind != YamlNode::Kind::null) {
    file = read_cluster(Value(*tree, "", findings), options.files);
  }
  file.findings = findings.take_sorted();
  return file;
}

Result<std::vector<std::string>> command_words(std::string_view line) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  const auto add = [&](std::string_view text) {
    if (!word) word.emplace();
    *word += text;
  };
  const auto end_word = [&] {
    if (word) words.push_back(*word);
    word.reset();
  };
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    const bool is_escape = c == '\\' && quote != '\'';
    const bool is_quote = quote == 0 ? c == '\'' || c == '"' : c == quote;
    // Braces are placeholders. Inside double quotes a shell still puts values in.
    const std::string_view of_shell = quote == 0 ? "|&;<>()$`*?[]#~!" : quote == '"' ? "$`" : "";
    if (is_escape) {
      if (++at == line.size()) return Error{"nothing follows the last \\"};
      add(line.substr(at, 1));
    } else if (is_quote) {
      quote = quote == 0 ? c : '\0';
      add("");
    } else if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      end_word();
    } else if (of_shell.find(c) != of_shell.npos) {
      return Error{std::string("no shell reads this: ") + c +
                   " would be an argument; quote it, or put the command into a script"};
    } else {
      add(line.substr(at, 1));
    }
  }
  if (quote != 0) return Error{std::string("the quote ") + quote + " is not closed"};
  end_word();
  return words;
}

void add_images(ImageSettings& to, ImageSettings more) {
  std::ranges::move(more.allow, std::back_inserter(to.allow));
  if (to.pull == ImageBringer::automatic) to.pull = more.pull;
  if (to.runtime.empty()) to.runtime = more.runtime;
  to.mirrors.merge(more.mirrors);
  to.environments.merge(more.environments);
  to.refuses_unknown_environments |= more.refuses_unknown_environments;
}

std::vector<ComputeTarget> known_targets(const ClusterFile& file) {
  std::vector<ComputeTarget> out{local_target(), local_cluster_target()};
  out.insert(out.end(), file.targets.begin(), file.targets.end());
  return out;
}

RetentionFile read_retention_file(const std::string& path, std::string_view text) {
  RetentionFile file;
  FindingList findings;
  if (const auto tree = parse_with_sets(path, text, {}, findings)) {
    MapReader map(Value(*tree, "", findings));
    read_keep(map.take("journal"), file.keep.journal);
    read_keep(map.take("job_folders"), file.keep.job_folders);
    read_keep(map.take("blobs"), file.keep.blobs);
    read_keep(map.take("binaries"), file.keep.binaries);
    read_keep(map.take("run_folders"), file.keep.run_folders);
    map.finish();
  }
  file.findings = findings.take_sorted();
  return file;
}

ComputeTarget local_target() {
  ComputeTarget target;
  target.name = "local";
  target.nodes.emplace_back().id = NodeId{"local"};
  return target;
}

ComputeTarget local_cluster_target() {
  ComputeTarget target;
  target.name = "local-cluster";
  for (int i = 0; i < local_cluster_nodes; ++i) {
    target.nodes.emplace_back().id = NodeId{"local-" + std::to_string(i)};
  }
  return target;
}

ResolvedTarget resolve_target(const JobFile& job, const std::vector<ComputeTarget>& known,
                              const std::string& default_target) {
  ResolvedTarget out;
  const std::string fallback = default_target.empty() ? "local" : default_target;
  const std::string& name = job.spec.compute.empty() ? fallback : job.spec.compute;
  const auto target = std::ranges::find(known, name, &ComputeTarget::name);
  if (target == known.end()) {
    out.findings.push_back(finding_about(job, Severity::unresolved, "compute",
                                         "compute: there is no target " + quoted_text(name),
                                         unknown_suggestion(known, name)));
    return out;
  }
  TargetCheck check{job, *target, out.findings};
  check.check_size();
  check.check_placement("muster.placement.include", job.spec.muster.include_nodes);
  check.check_placement("muster.placement.exclude", job.spec.muster.exclude_nodes);
  check.check_spares();
  if (!has_errors(out.findings) && !has_unresolved(out.findings)) out.target = &*target;
  return out;
}

}  // namespace muster
