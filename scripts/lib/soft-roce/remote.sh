# shellcheck shell=bash
# shellcheck disable=SC2154 # node sets job, node_count and ssh_tree
# How guests reach each other: names, and an ssh server in each. Sourced by node.

readonly ssh_home=/run/ssh

# Names of all guests, on the control link. The caller's name lists are of no use here.
write_hosts() {
    local node
    rm -f /etc/nsswitch.conf
    echo 'hosts: files' >/etc/nsswitch.conf
    {
        echo '127.0.0.1 localhost'
        echo '::1 ip6-localhost'
        for ((node = 0; node < node_count; node++)); do echo "198.19.0.$((node + 1)) softroce$node"; done
    } >/etc/hosts
}

# Starts the server. Who logs in gets the caller's environment, as the job's command does.
serve_ssh() {
    local node
    rm -f /etc/passwd /etc/shells
    echo "root:x:0:0:root:$ssh_home:/bin/bash" >/etc/passwd
    echo /bin/bash >/etc/shells
    install -d -m 700 "$ssh_home" "$ssh_home/.ssh"
    install -m 600 "$job/key" "$ssh_home/key"
    echo "command=\"exec bash $job/login\" $(<"$job/key.pub")" >"$ssh_home/.ssh/authorized_keys"
    chmod 600 "$ssh_home/.ssh/authorized_keys"
    for ((node = 0; node < node_count; node++)); do
        echo "softroce$node $(<"$job/key.pub")"
    done >"$ssh_home/.ssh/known_hosts"
    LD_LIBRARY_PATH=$ssh_tree/lib "$ssh_tree/usr/sbin/dropbear" -E -s -r "$ssh_home/key" -p 22 \
        -P /run/dropbear.pid 2>>/run/dropbear.log
}

# Waits until every guest answers.
wait_for_guests() {
    local node
    for ((node = 1; node < node_count; node++)); do
        until (exec 3<>"/dev/tcp/198.19.0.$((node + 1))/22") 2>/dev/null; do sleep 0.1; done
    done
}
