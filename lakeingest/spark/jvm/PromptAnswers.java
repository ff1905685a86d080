package io.lakeingest;

import java.lang.reflect.Field;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.List;

import py4j.DefaultGatewayServerListener;
import py4j.GatewayServer;
import py4j.Py4JServerConnection;

/**
 * Lets Java send whatever it answers to Python at once.
 *
 * <p>py4j writes an answer of more than 8 KiB in several pieces. By itself TCP keeps a small last piece back until the
 * other side has acknowledged the one before (RFC 896), which Linux does after 40 ms (RFC 1122, "delayed ACK").
 */
public final class PromptAnswers extends DefaultGatewayServerListener {
    private PromptAnswers() {}

    /** For all threads of Python: those that are connected, and those to come. */
    public static synchronized void start(GatewayServer server) {
        if (server.getListeners().stream().noneMatch(PromptAnswers.class::isInstance)) {
            server.addListener(new PromptAnswers());
            connections(server).forEach(PromptAnswers::send);
        }
    }

    @Override
    public void connectionStarted(Py4JServerConnection connection) {
        send(connection);
    }

    private static void send(Py4JServerConnection connection) {
        try {
            connection.getSocket().setTcpNoDelay(true);
        } catch (SocketException closed) {
            // Nobody waits for an answer.
        }
    }

    /** py4j shows them to nobody; none with a py4j that has them elsewhere. */
    @SuppressWarnings("unchecked")
    private static List<Py4JServerConnection> connections(GatewayServer server) {
        try {
            Field field = GatewayServer.class.getDeclaredField("connections");
            field.setAccessible(true);
            return new ArrayList<>((List<Py4JServerConnection>) field.get(server));
        } catch (ReflectiveOperationException another) {
            return List.of();
        }
    }
}
