#include "launcher/agent/attempt/mpi_launch.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "launcher/os/fd.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/json_fields.h"
#include "launcher/wire/mpi_daemon.h"

namespace muster {

namespace {

// Open MPI cuts names at the first dot and takes apart digits; a plain word survives both.
bool is_plain_host(const std::string& name) {
  return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-'; });
}

std::string first_label(const std::string& name) {
  return name.substr(0, name.find('.'));
}

}  // namespace

std::vector<std::string> mpi_host_names(const std::vector<std::string>& hosts,
                                        const std::string& own_host) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string& host = hosts[i];
    const bool is_taken = std::find(names.begin(), names.end(), host) != names.end();
    const bool is_own = host == own_host || host == first_label(own_host) || host == "localhost";
    if (i == 0) {
      names.push_back(own_host);
    } else if (is_plain_host(host) && !is_own && !is_taken) {
      names.push_back(host);
    } else {
      names.push_back("muster-node-" + std::to_string(i));
    }
  }
  return names;
}

std::vector<std::string> mpirun_command(const std::vector<std::string>& host_names,
                                        const MpiLaunch& mpi) {
  std::string hosts;
  int ranks = 0;
  for (std::size_t i = 0; i < host_names.size(); ++i) {
    const int slots = i < mpi.processes.size() ? mpi.processes[i] : mpi.processes_per_node;
    hosts += (i == 0 ? "" : ",") + host_names[i] + ":" + std::to_string(slots);
    ranks += slots;
  }
  std::vector<std::string> argv{"mpirun"};
  if (::geteuid() == 0) argv.push_back("--allow-run-as-root");
  // The daemons stay children of their agents.
  argv.insert(argv.end(), {"--leave-session-attached", "-np", std::to_string(ranks), "--host",
                           hosts, "--map-by", "slot", "--bind-to", "none"});
  argv.insert(argv.end(), mpi.arguments.begin(), mpi.arguments.end());
  // Each node has its own path of muster, so the shell there looks it up.
  argv.insert(argv.end(),
              {"sh", "-c", std::string("exec \"$") + program_name + "\" agent mpi-rank"});
  return argv;
}

std::vector<std::string> hydra_command(const std::vector<std::string>& argv) {
  const auto host = std::ranges::find(argv, "--host");
  const auto bound = std::ranges::find(argv, "--bind-to");
  const auto count = std::ranges::find(argv, "-np");
  for (const auto at : {host, bound, count}) {
    if (argv.end() - at < 2) return argv;
  }
  // The other nodes' environment and directory are their own: mpi-rank enters it. "HOST:SLOTS" is
  // a word of MPICH's; Intel's has -ppn, which MPICH has too.
  std::vector<std::string> hydra{argv.front(), "-genvnone", "-wdir", "/", "-n", count[1]};
  std::string names = host[1] + ",";
  std::set<std::string> slots;
  for (std::size_t colon = 0; (colon = names.find(':', colon)) != std::string::npos;) {
    const std::size_t comma = names.find(',', colon);
    slots.insert(names.substr(colon + 1, comma - colon - 1));
    names.erase(colon, comma - colon);
  }
  names.pop_back();
  const bool is_even = slots.size() == 1;
  hydra.insert(hydra.end(), {"-hosts", is_even ? names : host[1]});
  if (is_even) hydra.insert(hydra.end(), {"-ppn", *slots.begin()});
  hydra.insert(hydra.end(), bound + 2, argv.end());
  return hydra;
}

Environment mpirun_settings(bool one_machine) {
  // Only node 0's agent may be asked, so nothing is spawned as a tree. The daemons are told the
  // remote shell too and look for it: a name in PATH, since paths differ by node.
  Environment settings{{"OMPI_MCA_plm", "rsh"},
                       {"OMPI_MCA_plm_rsh_agent", mpi_remote_shell},
                       {"OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
                       {"OMPI_MCA_if_base_do_not_resolve", "1"},
                       {"PRTE_MCA_plm", "ssh"},
                       {"PRTE_MCA_plm_ssh_agent", mpi_remote_shell_of_prte},
                       {"PRTE_MCA_plm_ssh_no_tree_spawn", "1"},
                       {"PRTE_MCA_prte_do_not_resolve", "1"}};
  if (one_machine) {
    // Other networks of a machine come and go, those of containers for instance, and a connection
    // through one that has gone stands still for ever. PRRTE's own takes lo where it has no other.
    settings["OMPI_MCA_oob_tcp_if_include"] = "lo";
    settings["OMPI_MCA_btl_tcp_if_include"] = "lo";
    // Open MPI 5 tells nodes apart by the machine's name: ranks do not agree on who is on theirs,
    // and what goes node by node waits for ever.
    settings["OMPI_MCA_coll"] = "^han";
  }
  return settings;
}

Environment mpi_environment(const AttemptLayout& layout, const std::string& program,
                            Environment base) {
  std::string& path = base["PATH"];
  path = layout.mpi_scratch + ":" + path;
  base["TMPDIR"] = layout.mpi_scratch;
  base[attempt_directory_name] = layout.spool;
  base[program_name] = program;
  return base;
}

std::string mpi_rank_file_path(const std::string& spool_directory, RankId rank) {
  return spool_directory + "/launch-" + std::to_string(rank.value);
}

Status write_mpi_rank_file(const std::string& path, const MpiRankFile& rank) {
  Json fields;
  write_json(fields, rank);
  std::string bytes;
  Json::to_cbor(fields, bytes);
  if (replace_file(path, bytes, 0600, Durable::in_cache)) return Done{};
  return system_error("write " + path);
}

std::optional<MpiRankFile> read_mpi_rank_file(const std::string& path) {
  try {
    MpiRankFile rank;
    read_json(Json::from_cbor(text_of_file(path)), rank);
    return rank.argv.empty() ? std::nullopt : std::optional(std::move(rank));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

Status prepare_mpi_scratch(const AttemptLayout& layout, const std::string& program) {
  if (const auto made = open_private_directory(layout.mpi_scratch); !made) return made.error();
  const std::string link = layout.mpi_scratch + "/muster";
  ::unlink(link.c_str());
  if (::symlink(program.c_str(), link.c_str()) != 0) return system_error("create " + link);
  return Done{};
}

}  // namespace muster
