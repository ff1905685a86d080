package io.lakeingest;

import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog of functions that are told by their names: what they do is a name's text. */
abstract class Functions implements FunctionCatalog {
    private String name;

    /**
     * The function of this name.
     *
     * @throws RuntimeException if the name is none
     */
    abstract BoundFunction named(String name);

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public Identifier[] listFunctions(String[] namespace) {
        return new Identifier[0];
    }

    @Override
    public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
        try {
            return new Unbound(named(identifier.name()));
        } catch (RuntimeException none) {
            throw new NoSuchFunctionException(identifier);
        }
    }

    private record Unbound(BoundFunction function) implements UnboundFunction {
        @Override
        public BoundFunction bind(StructType inputs) {
            return function;
        }

        @Override
        public String description() {
            return function.name();
        }

        @Override
        public String name() {
            return function.name();
        }
    }
}
