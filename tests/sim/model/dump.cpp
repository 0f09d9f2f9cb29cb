#include "tests/sim/model/dump.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

namespace muster {

namespace {

template <class Each, class... Members>
void each_named(std::string_view names, const Each& each, const Members&... members) {
  const auto next = [&names] {
    const std::string name(names.substr(0, names.find(',')));
    names.remove_prefix(std::min(names.size(), name.size() + 2));
    return name;
  };
  (each(next(), members), ...);
}

// The members of a part of State. One that is not named here does not compile.
#define FACTS(type, ...)                         \
  template <class Each>                          \
  void facts(const type& whole, Each each) {     \
    const auto& [__VA_ARGS__] = whole;           \
    each_named(#__VA_ARGS__, each, __VA_ARGS__); \
  }

FACTS(RankRunning, since)
FACTS(RankDone, exit)
FACTS(RankGone, at)
FACTS(Rank, id, node_index, local_rank, state)
FACTS(LinkLoss, at, silent_since)
FACTS(StartAgent, id, boot_id, lost, change)
FACTS(Unkillable, since)
FACTS(NotCollected, seen)
FACTS(CollectionFailed, error, at)
FACTS(Collection, state, failures)
FACTS(Join, asked_at, begun, ready_at)
FACTS(Membership, is_member, since, told, error)
FACTS(Departure, why, at, is_released)
FACTS(AttemptNode, id, joined_at, checked, staging_seen, preparing, staged, ports, started, agent,
      stopped, fenced, collection, join, membership, departure)
FACTS(Staging, since)
FACTS(Reserving, since)
FACTS(Starting, since)
FACTS(Running, since)
FACTS(Stopping, since, why)
FACTS(Collecting, why, since, delivers, error)
FACTS(Members, epoch, ranks)
FACTS(TimeSpan, from, to)
FACTS(Attempt, id, placed_at, measured, nodes, spares, ranks, processes, resume_from,
      newest_checkpoint, last_step, stepped_at, saved_at, rejected_nodes, spares_dropped,
      running_since, stopped_at, stall, faulted, members, launched, phase)
FACTS(RanThere, node, left, until)
FACTS(PastAttempt, id, ended_at, cause, newest_checkpoint, reschedule, started_at, nodes, spares,
      ran, charged, saved_last_step, last_step, advanced)
FACTS(Queued, reason, not_before)
FACTS(Active, attempt)
FACTS(Backoff, retry)
FACTS(AskedHosts, at, nodes)
FACTS(Job, id, order, submitted_at, spec, target, user, cancel, resume_step, certified_because,
      next_attempt, past, waiting_since, waited_before, measured_meanwhile, ran_for, abandoned,
      abandoned_for, abandoned_alike, asked, awaited, avoid, excluded, first_launch, found,
      newest_checkpoint, newest_certified, forks, not_uploaded, phase)
FACTS(Linked, up, since)
FACTS(Unlinked, failure, since, last, failed_at, sought_since, heard_at)
FACTS(LeaveNotice, since, leaves_at, source, boot_id, agent_id)
FACTS(Cordon, since, until, reason)
FACTS(FaultDrain, since, fault, reason, rebooted)
FACTS(RemedyUnderway, since, what, ended)
FACTS(Node, id, link, drained, drain_reason, move_at, notice, evidence, set_aside, cleared_at,
      faults, faults_told, faults_heard, faults_settled, fault_drain, remedy, remedies, is_away,
      owner, unclean)
FACTS(Breaker, open_since, reason, is_check, reset_at)
FACTS(RemedyTaken, at, asked_at, node, serial, device, check, code, remedy, job)
FACTS(State, jobs, nodes, breakers, remedies, next_order)

// Any value of a record, in one line: scalars, ids, containers, and structs by their `fields`.
class Text {
 public:
  std::string take() { return std::move(text_); }

  template <class T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (std::is_enum_v<T>) {
      text_ += std::to_string(static_cast<int>(value));
    } else if constexpr (std::is_arithmetic_v<T>) {
      text_ += std::to_string(value);
    } else if constexpr (requires { value.value; }) {
      put(value.value);
    } else {
      put_fields(value);
    }
  }

  void put(const std::string& value) { text_.append("'").append(value).append("'"); }
  void put(Time time) { text_ += std::to_string(to_ms(time)); }

  template <class Rep, class Period>
  void put(std::chrono::duration<Rep, Period> duration) {
    text_ += std::to_string(std::chrono::duration_cast<Milliseconds>(duration).count());
  }

  template <class T>
  void put(const std::optional<T>& value) {
    if (value) return put(*value);
    text_ += "none";
  }

  template <class T>
  void put(const std::vector<T>& values) {
    put_all(values);
  }
  template <class T>
  void put(const std::set<T>& values) {
    put_all(values);
  }
  template <class K, class V>
  void put(const std::map<K, V>& values) {
    put_all(values);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& pair) {
    put(pair.first);
    text_ += ":";
    put(pair.second);
  }

 private:
  template <class Range>
  void put_all(const Range& values) {
    text_ += "[";
    for (const auto& value : values) {
      put(value);
      text_ += " ";
    }
    text_ += "]";
  }

  template <class T>
  void put_fields(const T& value) {
    text_ += "{";
    T::fields(value, [&](const char* name, const auto& field) {
      text_ += std::string(name) + "=";
      put(field);
      text_ += " ";
    });
    text_ += "}";
  }

  std::string text_;
};

template <class T>
std::string text_of(const T& value) {
  Text text;
  text.put(value);
  return text.take();
}

// The parts of State, each fact with the way to it.
class Lines {
 public:
  std::string take() { return std::move(text_); }

  template <class T>
  void tell(const std::string& at, const T& value) {
    const auto each = [&](const std::string& name, const auto& member) {
      tell(at + "." + name, member);
    };
    if constexpr (requires { facts(value, each); }) {
      facts(value, each);
    } else if constexpr (!std::is_empty_v<T>) {
      line(at, text_of(value));
    }
  }

  template <class T>
  void tell(const std::string& at, const std::optional<T>& value) {
    if (value) return tell(at, *value);
    line(at, "none");
  }
  template <class T>
  void tell(const std::string& at, const std::vector<T>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) tell(at + "." + std::to_string(i), values[i]);
  }
  template <class K, class V>
  void tell(const std::string& at, const std::map<K, V>& values) {
    for (const auto& [key, value] : values) tell(at + "." + text_of(key), value);
  }
  template <class... T>
  void tell(const std::string& at, const std::variant<T...>& value) {
    line(at, std::to_string(value.index()));
    std::visit([&](const auto& is) { tell(at, is); }, value);
  }

 private:
  void line(const std::string& at, const std::string& value) { text_ += at + " " + value + "\n"; }

  std::string text_;
};

template <class Variant>
std::string line_of(const Variant& variant) {
  return std::visit([](const auto& is) { return std::string(is.kind) + " " + text_of(is) + "\n"; },
                    variant);
}

}  // namespace

std::string describe(const State& state) {
  Lines lines;
  lines.tell("state", state);
  return lines.take();
}

std::string describe(const Decision& decision) {
  return line_of(decision);
}

std::string describe(const Record& record) {
  return std::visit([](const auto& side) { return line_of(side); }, record.what);
}

}  // namespace muster
