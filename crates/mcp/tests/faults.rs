//! The client against a server with scripted failures.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use convoke_mcp::{
    LostAnswer, McpError, Options, Refusal, StartFailure, StartObserver, ToolServers,
};
use futures::future::join_all;
use serde_json::json;
use support::{
    Scripted, call, free_port, kill, object, options, request, runs, server, until,
    with_short_timeout,
};

fn pid(reply: &convoke_mcp::ToolReply) -> u32 {
    u32::try_from(reply.content["pid"].as_u64().unwrap()).unwrap()
}

#[tokio::test]
async fn servers_are_started_on_first_use() {
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], options());
    assert!(script.logged("start").is_empty());
    servers.tools("s").await.unwrap();
    assert_eq!(script.logged("start").len(), 1);
    servers.shutdown().await;
}

#[tokio::test]
async fn concurrent_first_calls_share_one_start_and_one_connection() {
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], options());
    // No call is answered before all have arrived, so calls in sequence would never end.
    let replies = join_all((0..50).map(|number| {
        call(
            &servers,
            "s",
            "gather",
            json!({"count": 50, "text": format!("number {number}")}),
        )
    }))
    .await;
    for (number, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply.unwrap().text, format!("number {number}"));
    }
    assert_eq!(script.logged("start").len(), 1);
    servers.shutdown().await;
}

#[tokio::test]
async fn all_pages_of_tools_are_read() {
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], options());
    let tools = servers.tools("s").await.unwrap();
    assert_eq!(tools.len(), 11, "{tools:?}");
    assert_eq!(tools[0].annotations.read_only, Some(true));
    assert_eq!(tools[1].annotations.read_only, None);
    servers.shutdown().await;
}

#[tokio::test]
async fn an_endless_list_of_tools_is_abandoned() {
    let script = Scripted::new("endless");
    let servers = ToolServers::new(vec![script.server("s")], options());
    let error = servers.tools("s").await.unwrap_err();
    assert!(error.to_string().contains("100 pages"), "{error}");
    servers.shutdown().await;
}

#[tokio::test]
async fn changed_tools_are_listed_again() {
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], options());
    let error = call(&servers, "s", "grown", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "mcp.unknown_tool");
    call(&servers, "s", "grow", json!({})).await.unwrap();
    until("the new tool is listed", || async {
        servers
            .tools("s")
            .await
            .unwrap()
            .iter()
            .any(|tool| tool.name == "grown")
    })
    .await;
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_dies_during_a_call_is_restarted_alone() {
    let (dying, other) = (Scripted::new("sound"), Scripted::new("sound"));
    let servers = ToolServers::new(
        vec![dying.server("dying"), other.server("other")],
        options(),
    );
    let first = pid(&call(&servers, "dying", "pid", json!({})).await.unwrap());
    let others = pid(&call(&servers, "other", "pid", json!({})).await.unwrap());

    let error = call(&servers, "dying", "die", json!({})).await.unwrap_err();
    assert!(
        matches!(
            error,
            McpError::Unknown {
                loss: LostAnswer::Broken(_),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        dying
            .logged("call")
            .iter()
            .filter(|tool| *tool == "die")
            .count(),
        1
    );

    let second = pid(&call(&servers, "dying", "pid", json!({})).await.unwrap());
    assert_ne!(first, second);
    assert_eq!(
        pid(&call(&servers, "other", "pid", json!({})).await.unwrap()),
        others
    );
    assert_eq!(other.logged("start").len(), 1);
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_killed_between_calls_is_started_again() {
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], options());
    for _ in 0..5 {
        let first = pid(&call(&servers, "s", "pid", json!({})).await.unwrap());
        kill(first);
        // If the death is noticed early, the call was not sent and is sent again; otherwise its outcome is
        // unknown. It is never repeated silently.
        match call(&servers, "s", "pid", json!({})).await {
            Ok(reply) => assert_ne!(pid(&reply), first),
            Err(error) => assert_eq!(error.code(), "mcp.connection_lost", "{error}"),
        }
    }
    servers.shutdown().await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cancelled_and_its_outcome_unknown() {
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], options());
    servers.tools("s").await.unwrap();
    let mut slow = request("s", "hang", json!({}));
    slow.timeout = Some(Duration::from_millis(100));
    let error = servers.call(slow).await.unwrap_err();
    assert!(
        matches!(
            error,
            McpError::Unknown {
                loss: LostAnswer::TimedOut(_),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.code(), "mcp.timed_out");
    until("the server is told", || async {
        script.logged("cancelled").len() == 1
    })
    .await;
    // The connection is still usable.
    assert_eq!(
        call(&servers, "s", "echo", json!({"text": "hi"}))
            .await
            .unwrap()
            .text,
        "hi"
    );
    assert_eq!(script.logged("start").len(), 1);
    servers.shutdown().await;
}

#[tokio::test]
async fn dropping_a_call_cancels_it() {
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], options());
    let under_way = servers.call(request("s", "hang", json!({})));
    tokio::select! {
        outcome = under_way => panic!("{outcome:?}"),
        () = until("the call is there", || async { script.logged("call").len() == 1 }) => {}
    }
    until("the server is told", || async {
        script.logged("cancelled").len() == 1
    })
    .await;
    servers.shutdown().await;
}

#[tokio::test]
async fn bad_arguments_never_reach_the_server() {
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], options());
    let error = call(&servers, "s", "gather", json!({"count": "x"}))
        .await
        .unwrap_err();
    let McpError::Refused(Refusal::Arguments { violations, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!(violations.len(), 2, "{error}");
    assert!(script.logged("call").is_empty());
    servers.shutdown().await;
}

#[tokio::test]
async fn the_key_and_injected_arguments_are_sent() {
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], options());
    let reply = call(&servers, "s", "meta", json!({})).await.unwrap();
    assert_eq!(reply.content["idempotencyKey"], "key-1");

    let mut ask = request("s", "whoami", json!({"user_id": "somebody else"}));
    ask.injected = object(json!({"user_id": "me", "channel": "sms"}));
    assert_eq!(
        servers.call(ask).await.unwrap().content,
        json!({"user_id": "me"})
    );
    servers.shutdown().await;
}

#[tokio::test]
async fn server_errors_are_distinguished() {
    let script = Scripted::new("sound");
    let servers = ToolServers::new(vec![script.server("s")], options());
    for (code, expected) in [
        (-32602, "mcp.refused_by_server"),
        (-32601, "mcp.refused_by_server"),
        (-32603, "mcp.failed"),
        (-1, "mcp.failed"),
    ] {
        let error = call(&servers, "s", "fail", json!({"code": code}))
            .await
            .unwrap_err();
        assert_eq!(error.code(), expected, "{code}: {error}");
    }
    assert!(
        call(&servers, "s", "refuse", json!({}))
            .await
            .unwrap()
            .is_error
    );
    servers.shutdown().await;
}

#[tokio::test]
async fn a_call_to_a_server_that_hangs_at_start_is_not_sent() {
    let (mute, sound) = (Scripted::new("mute"), Scripted::new("sound"));
    let servers = ToolServers::new(
        vec![
            with_short_timeout(mute.server("mute")),
            sound.server("sound"),
        ],
        options(),
    );
    let (hanging, answered) = tokio::join!(
        call(&servers, "mute", "echo", json!({"text": "x"})),
        call(&servers, "sound", "echo", json!({"text": "x"})),
    );
    let error = hanging.unwrap_err();
    assert_eq!(error.code(), "mcp.not_started");
    assert!(error.had_no_effect() && !error.is_transient());
    assert!(error.to_string().contains("connect_seconds"), "{error}");
    assert_eq!(answered.unwrap().text, "x");
    servers.shutdown().await;
    assert!(mute.pids("start").into_iter().all(|pid| !runs(pid)));
}

#[tokio::test]
async fn a_call_waits_for_a_start_only_until_its_deadline() {
    let mute = Scripted::new("mute");
    let servers = ToolServers::new(vec![mute.server("mute")], options());
    let mut hurried = request("mute", "echo", json!({"text": "x"}));
    hurried.timeout = Some(Duration::from_millis(50));
    assert_eq!(
        servers.call(hurried).await.unwrap_err().code(),
        "mcp.not_sent"
    );
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_ignores_unknown_requests_gets_the_older_protocol() {
    let silent = Scripted::new("silent");
    let patience = Options {
        discover_timeout: Duration::from_millis(50),
        ..options()
    };
    let servers = ToolServers::new(vec![silent.server("s")], patience);
    assert_eq!(
        call(&servers, "s", "echo", json!({"text": "x"}))
            .await
            .unwrap()
            .text,
        "x"
    );
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_never_worked_and_exits_at_start_fails_at_once_with_its_error_output() {
    let crashing = Scripted::new("crash");
    let told: Arc<Mutex<Vec<StartFailure>>> = Arc::default();
    let observed = Arc::clone(&told);
    let options = Options {
        on_failed_start: Some(StartObserver::new(move |failure: &StartFailure| {
            observed.lock().unwrap().push(failure.clone());
        })),
        ..options()
    };
    let servers = ToolServers::new(vec![crashing.server("s")], options);
    let error = servers.tools("s").await.unwrap_err();
    assert_eq!(error.code(), "mcp.not_started");
    assert!(error.had_no_effect() && !error.is_transient());
    assert_eq!(
        error.to_string(),
        "the tool server `s` could not be started: it exited with code 1"
    );
    assert_eq!(crashing.logged("start").len(), 1);
    let failure = servers.last_failure("s").unwrap();
    assert_eq!(failure.error_output, ["crashing, as asked"]);
    assert_eq!(*told.lock().unwrap(), [(*failure).clone()]);
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_worked_before_and_exits_at_start_is_retried_a_few_times() {
    let server = Scripted::new("crash_later");
    let servers = ToolServers::new(vec![server.server("s")], options());
    assert!(!servers.tools("s").await.unwrap().is_empty());
    let pid = server.pids("start")[0];
    kill(pid);
    until(
        "the loss is noticed, and it is not started again",
        || async {
            let tools = servers.tools("s").await;
            tools.is_err_and(|error| error.code() == "mcp.not_sent" && error.is_transient())
        },
    )
    .await;
    let started = server.logged("start").len() - 1;
    assert_eq!(started, Options::default().connect_attempts as usize);
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_runs_in_the_folder_that_the_app_names() {
    let app = tempfile::tempdir().unwrap();
    std::fs::create_dir(app.path().join("tools")).unwrap();
    let program = app.path().join("tools/where.sh");
    std::fs::write(&program, "#!/bin/sh\npwd >&2\nexit 3\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).unwrap();
    let options = Options {
        app_folder: Some(app.path().to_owned()),
        ..options()
    };
    let started = |cwd| server("s", json!({"stdio": {"command": "./where.sh", "cwd": cwd}}));
    let servers = ToolServers::new(vec![started("tools")], options.clone());
    let error = servers.tools("s").await.unwrap_err();
    assert!(
        error.to_string().ends_with("it exited with code 3"),
        "{error}"
    );
    let folder = app.path().join("tools").canonicalize().unwrap();
    let said = &servers.last_failure("s").unwrap().error_output;
    assert_eq!(*said, [folder.to_str().unwrap()]);
    servers.shutdown().await;

    let servers = ToolServers::new(vec![started("nowhere")], options);
    let error = servers.tools("s").await.unwrap_err().to_string();
    assert!(error.contains("nowhere` is not a folder (cwd)"), "{error}");
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_with_endless_output_is_abandoned() {
    let flooding = Scripted::new("flood");
    let options = Options {
        max_message_bytes: 64 * 1024,
        connect_attempts: 1,
        discover_timeout: Duration::from_hours(1),
        ..options()
    };
    let patient = flooding.server("s");
    let patient = patient.with(|fields| fields.connect_seconds = 3_600);
    let servers = ToolServers::new(vec![patient.unwrap()], options);
    let listed = tokio::time::timeout(Duration::from_mins(1), servers.tools("s"));
    let error = listed.await.unwrap().unwrap_err();
    // Whether its end is known by then is a matter of time. Either way nothing was called.
    assert!(error.had_no_effect(), "{error}");
    assert!(
        ["mcp.not_started", "mcp.not_sent"].contains(&error.code()),
        "{error}"
    );
    until("the server is gone", || async {
        flooding.pids("start").into_iter().all(|pid| !runs(pid))
    })
    .await;
    servers.shutdown().await;
}

#[tokio::test]
async fn an_unknown_command_is_named_in_the_error() {
    let missing = server(
        "s",
        json!({"stdio": {"command": "no-such-program-anywhere"}}),
    );
    let servers = ToolServers::new(vec![missing], options());
    let error = servers.tools("s").await.unwrap_err();
    assert_eq!(error.code(), "mcp.not_started");
    assert!(
        error.to_string().contains("`no-such-program-anywhere`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_call_to_a_closed_port_is_not_sent() {
    for key in ["http", "sse"] {
        let secret = format!("http://127.0.0.1:{}/mcp?token=secret", free_port());
        let nobody = server("s", json!({key: {"url": secret}}));
        let servers = ToolServers::new(vec![nobody], options());
        let error = call(&servers, "s", "echo", json!({})).await.unwrap_err();
        assert_eq!(error.code(), "mcp.not_sent");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn tools_are_found_by_name_over_all_servers() {
    let (one, two) = (Scripted::new("sound"), Scripted::new("sound"));
    let unreachable = server(
        "gone",
        json!({"stdio": {"command": "no-such-program-anywhere"}}),
    );
    let servers = ToolServers::new(vec![one.server("one"), unreachable.clone()], options());
    assert_eq!(servers.find("echo").await.unwrap().full_name(), "one.echo");
    assert_eq!(
        servers.find("one.echo").await.unwrap().full_name(),
        "one.echo"
    );
    assert_eq!(
        servers.find("one.none").await.unwrap_err().code(),
        "mcp.unknown_tool"
    );
    // The unreachable server may have it, so the result is uncertain.
    assert_eq!(
        servers.find("none").await.unwrap_err().code(),
        "mcp.not_started"
    );
    servers.shutdown().await;

    let servers = ToolServers::new(vec![one.server("one"), two.server("two")], options());
    let error = servers.find("echo").await.unwrap_err();
    assert_eq!(error.code(), "mcp.ambiguous_tool");
    assert!(
        error.to_string().contains("`one.echo`, `two.echo`"),
        "{error}"
    );
    assert_eq!(servers.find("two.echo").await.unwrap().server, "two");
    assert_eq!(
        servers.find("none").await.unwrap_err().code(),
        "mcp.unknown_tool"
    );
    assert_eq!(
        servers.tools("three").await.unwrap_err().code(),
        "mcp.unknown_server"
    );
    servers.shutdown().await;
}

#[tokio::test]
async fn shutdown_leaves_no_process_behind() {
    let (sound, stubborn) = (Scripted::new("sound"), Scripted::new("stubborn"));
    let quick = Options {
        shutdown_grace: Duration::from_millis(100),
        ..options()
    };
    let servers = ToolServers::new(
        vec![sound.server("sound"), stubborn.server("stubborn")],
        quick,
    );
    servers.tools("sound").await.unwrap();
    servers.tools("stubborn").await.unwrap();
    let mut pids = sound.pids("start");
    pids.extend(stubborn.pids("start"));
    pids.extend(stubborn.pids("child"));
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| runs(*pid)));
    servers.shutdown().await;
    until("what the stubborn server started is gone", || async {
        pids.iter().all(|pid| !runs(*pid))
    })
    .await;
    assert_eq!(
        servers.tools("sound").await.unwrap_err().code(),
        "mcp.not_sent"
    );
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_server_stuck_in_a_call() {
    let script = Scripted::new("sound");
    let patient = Options {
        shutdown_grace: Duration::from_hours(1),
        ..options()
    };
    let servers = ToolServers::new(vec![script.server("s")], patient);
    servers.tools("s").await.unwrap();
    let mut stuck = request("s", "stick", json!({}));
    stuck.timeout = Some(Duration::from_millis(100));
    assert_eq!(
        servers.call(stuck).await.unwrap_err().code(),
        "mcp.timed_out"
    );
    let shutdown = tokio::time::timeout(Duration::from_mins(1), servers.shutdown());
    shutdown.await.unwrap();
    assert!(script.pids("start").into_iter().all(|pid| !runs(pid)));
}

#[tokio::test]
async fn dropping_the_last_handle_ends_the_servers() {
    let stubborn = Scripted::new("stubborn");
    let quick = Options {
        shutdown_grace: Duration::from_millis(100),
        ..options()
    };
    let servers = ToolServers::new(vec![stubborn.server("s")], quick);
    servers.tools("s").await.unwrap();
    let mut pids = stubborn.pids("start");
    pids.extend(stubborn.pids("child"));
    drop(servers.clone());
    assert!(pids.iter().all(|pid| runs(*pid)));
    drop(servers);
    until("the server is gone", || async {
        pids.iter().all(|pid| !runs(*pid))
    })
    .await;
}

#[test]
fn the_end_of_the_runtime_ends_the_servers() {
    let stubborn = Scripted::new("stubborn");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let servers = ToolServers::new(vec![stubborn.server("s")], options());
    runtime.block_on(async { servers.tools("s").await.unwrap() });
    let mut pids = stubborn.pids("start");
    pids.extend(stubborn.pids("child"));
    drop(runtime);
    drop(servers);
    let patient = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    patient.block_on(until("the server is gone", || async {
        pids.iter().all(|pid| !runs(*pid))
    }));
}
